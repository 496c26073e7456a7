#include "textflag.h"

// MULADD is eight columns of a row of x times its weight in Y8, rounded, then added.
#define MULADD(X, TERM, SUM) \
	VMULPS X, Y8, TERM; \
	VADDPS TERM, SUM, SUM

// WALK puts the first weight and row at hand: those of DI's columns, n of them.
#define WALK \
	MOVQ BX, AX; \
	MOVQ SI, DX; \
	MOVQ R12, CX

#define STEP \
	ADDQ R8, AX; \
	ADDQ R9, DX; \
	DECQ CX

// func addRows8(dst, w *float32, sw int, x *float32, ld, n, columns int)
TEXT ·addRows8(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ w+8(FP), BX
	MOVQ sw+16(FP), R8
	MOVQ x+24(FP), SI
	MOVQ ld+32(FP), R9
	MOVQ n+40(FP), R12
	MOVQ columns+48(FP), R11
	SHLQ $2, R8
	SHLQ $2, R9

wide:
	CMPQ    R11, $32
	JLT     middle
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	WALK

wideRow:
	VBROADCASTSS (AX), Y8
	MULADD((DX), Y4, Y0)
	MULADD(32(DX), Y5, Y1)
	MULADD(64(DX), Y6, Y2)
	MULADD(96(DX), Y7, Y3)
	STEP
	JNZ          wideRow
	VMOVUPS      Y0, (DI)
	VMOVUPS      Y1, 32(DI)
	VMOVUPS      Y2, 64(DI)
	VMOVUPS      Y3, 96(DI)
	ADDQ         $128, DI
	ADDQ         $128, SI
	SUBQ         $32, R11
	JMP          wide

middle:
	CMPQ    R11, $16
	JLT     narrow
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	WALK

middleRow:
	VBROADCASTSS (AX), Y8
	MULADD((DX), Y4, Y0)
	MULADD(32(DX), Y5, Y1)
	STEP
	JNZ          middleRow
	VMOVUPS      Y0, (DI)
	VMOVUPS      Y1, 32(DI)
	ADDQ         $64, DI
	ADDQ         $64, SI
	SUBQ         $16, R11

narrow:
	CMPQ    R11, $8
	JLT     done
	VMOVUPS (DI), Y0
	WALK

narrowRow:
	VBROADCASTSS (AX), Y8
	MULADD((DX), Y4, Y0)
	STEP
	JNZ          narrowRow
	VMOVUPS      Y0, (DI)

done:
	VZEROUPPER
	RET
