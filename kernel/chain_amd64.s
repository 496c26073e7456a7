#include "textflag.h"

// A tile is six rows of c by sixteen columns, in Y0 to Y11. Each product is rounded before it is
// added: VMULPS and VADDPS, never an instruction that fuses them. Columns are lanes, so every sum
// is added in the order of its chain.

// ROW is one element of a against the sixteen of b in Y12 and Y13.
#define ROW(A, LEFT, RIGHT) \
	VBROADCASTSS A, Y14; \
	VMULPS       Y12, Y14, Y15; \
	VADDPS       Y15, LEFT, LEFT; \
	VMULPS       Y13, Y14, Y14; \
	VADDPS       Y14, RIGHT, RIGHT

// JOIN adds a row in registers to what the row of c holds, STORE stores it.
#define JOIN(C, LEFT, RIGHT) \
	VADDPS C, LEFT, LEFT; \
	VADDPS 32C, RIGHT, RIGHT

#define STORE(C, LEFT, RIGHT) \
	VMOVUPS LEFT, C; \
	VMOVUPS RIGHT, 32C

// func tile6x16(c *float32, ldc int, a *float32, rowA, stepA int, b *float32, stepB int, n int, join bool)
TEXT ·tile6x16(SB), NOSPLIT, $0-65
	MOVQ c+0(FP), DI
	MOVQ ldc+8(FP), R10
	MOVQ a+16(FP), AX
	MOVQ rowA+24(FP), R8
	MOVQ stepA+32(FP), R9
	MOVQ b+40(FP), BX
	MOVQ stepB+48(FP), R11
	MOVQ n+56(FP), CX
	SHLQ $2, R8
	SHLQ $2, R9
	SHLQ $2, R10
	SHLQ $2, R11
	LEAQ (R8)(R8*2), DX
	ADDQ AX, DX          // the fourth row of a
	LEAQ (R10)(R10*2), SI
	ADDQ DI, SI          // the fourth row of c

	VPCMPEQD Y0, Y0, Y0
	VPSLLD   $31, Y0, Y0 // −0
	VMOVAPS  Y0, Y1
	VMOVAPS  Y0, Y2
	VMOVAPS  Y0, Y3
	VMOVAPS  Y0, Y4
	VMOVAPS  Y0, Y5
	VMOVAPS  Y0, Y6
	VMOVAPS  Y0, Y7
	VMOVAPS  Y0, Y8
	VMOVAPS  Y0, Y9
	VMOVAPS  Y0, Y10
	VMOVAPS  Y0, Y11
	TESTQ    CX, CX
	JZ       summed

	PCALIGN $32

next:
	VMOVUPS (BX), Y12
	VMOVUPS 32(BX), Y13
	ROW((AX), Y0, Y1)
	ROW((AX)(R8*1), Y2, Y3)
	ROW((AX)(R8*2), Y4, Y5)
	ROW((DX), Y6, Y7)
	ROW((DX)(R8*1), Y8, Y9)
	ROW((DX)(R8*2), Y10, Y11)
	ADDQ    R9, AX
	ADDQ    R9, DX
	ADDQ    R11, BX
	DECQ    CX
	JNZ     next

summed:
	MOVBLZX join+64(FP), CX
	TESTL   CX, CX
	JZ      store
	JOIN((DI), Y0, Y1)
	JOIN((DI)(R10*1), Y2, Y3)
	JOIN((DI)(R10*2), Y4, Y5)
	JOIN((SI), Y6, Y7)
	JOIN((SI)(R10*1), Y8, Y9)
	JOIN((SI)(R10*2), Y10, Y11)

store:
	STORE((DI), Y0, Y1)
	STORE((DI)(R10*1), Y2, Y3)
	STORE((DI)(R10*2), Y4, Y5)
	STORE((SI), Y6, Y7)
	STORE((SI)(R10*1), Y8, Y9)
	STORE((SI)(R10*2), Y10, Y11)
	VZEROUPPER
	RET

#define ADD(TILE, C) \
	VMOVUPS C, Y0; \
	VMOVUPS 32C, Y1; \
	VADDPS  TILE(AX), Y0, Y0; \
	VADDPS  (32+TILE)(AX), Y1, Y1; \
	VMOVUPS Y0, C; \
	VMOVUPS Y1, 32C

// func addTile6x16(c *float32, ldc int, tile *float32)
TEXT ·addTile6x16(SB), NOSPLIT, $0-24
	MOVQ c+0(FP), DI
	MOVQ ldc+8(FP), R10
	MOVQ tile+16(FP), AX
	SHLQ $2, R10
	LEAQ (R10)(R10*2), SI
	ADDQ DI, SI
	ADD(0, (DI))
	ADD(64, (DI)(R10*1))
	ADD(128, (DI)(R10*2))
	ADD(192, (SI))
	ADD(256, (SI)(R10*1))
	ADD(320, (SI)(R10*2))
	VZEROUPPER
	RET
