#include "textflag.h"

// Rows are added to partial sums one after another, each element in a lane of its own.

// NEXTROW goes on to the next slice; where its elements are is the first of its three words.
#define NEXTROW(AGAIN) \
	ADDQ $24, R10; \
	DECQ R11; \
	JNZ  AGAIN

// JOIN adds the sum in a register to what the partial sum held.
#define JOIN(C, Y) \
	VMOVUPS C, Y8; \
	VADDPS  Y, Y8, Y

#define NEGZERO(Y) \
	VPCMPEQD Y, Y, Y; \
	VPSLLD   $31, Y, Y

// func sumRows32(acc *float32, rows *[]float32, k, lo, n, how int)
TEXT ·sumRows32(SB), NOSPLIT, $0-48
	MOVQ acc+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ k+16(FP), R8
	MOVQ lo+24(FP), R9
	MOVQ n+32(FP), CX
	MOVQ how+40(FP), DX
	SHLQ $2, R9
	NEGZERO(Y15)

wide:
	CMPQ    CX, $64
	JLT     narrow
	VMOVAPS Y15, Y0
	VMOVAPS Y15, Y1
	VMOVAPS Y15, Y2
	VMOVAPS Y15, Y3
	VMOVAPS Y15, Y4
	VMOVAPS Y15, Y5
	VMOVAPS Y15, Y6
	VMOVAPS Y15, Y7
	TESTQ   DX, DX
	JNZ     wideRows
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7

wideRows:
	MOVQ SI, R10
	MOVQ R8, R11

wideRow:
	MOVQ   (R10), AX
	ADDQ   R9, AX
	VADDPS (AX), Y0, Y0
	VADDPS 32(AX), Y1, Y1
	VADDPS 64(AX), Y2, Y2
	VADDPS 96(AX), Y3, Y3
	VADDPS 128(AX), Y4, Y4
	VADDPS 160(AX), Y5, Y5
	VADDPS 192(AX), Y6, Y6
	VADDPS 224(AX), Y7, Y7
	NEXTROW(wideRow)
	CMPQ   DX, $2
	JNE    wideStore
	JOIN((DI), Y0)
	JOIN(32(DI), Y1)
	JOIN(64(DI), Y2)
	JOIN(96(DI), Y3)
	JOIN(128(DI), Y4)
	JOIN(160(DI), Y5)
	JOIN(192(DI), Y6)
	JOIN(224(DI), Y7)

wideStore:
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ    $256, DI
	ADDQ    $256, R9
	SUBQ    $64, CX
	JMP     wide

narrow:
	CMPQ    CX, $8
	JLT     done
	VMOVAPS Y15, Y0
	TESTQ   DX, DX
	JNZ     narrowRows
	VMOVUPS (DI), Y0

narrowRows:
	MOVQ SI, R10
	MOVQ R8, R11

narrowRow:
	MOVQ    (R10), AX
	VADDPS  (AX)(R9*1), Y0, Y0
	NEXTROW(narrowRow)
	CMPQ    DX, $2
	JNE     narrowStore
	JOIN((DI), Y0)

narrowStore:
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, R9
	SUBQ    $8, CX
	JMP     narrow

done:
	VZEROUPPER
	RET

// ROUND is lowp's rounding to bf16: to nearest, ties to even, and every NaN is the one of 0x7fc0.
#define ROUND(X, T, M) \
	VPSRLD    $16, X, T; \
	VPAND     Y12, T, T; \
	VPADDD    Y13, T, T; \
	VPADDD    X, T, T; \
	VPAND     Y14, T, T; \
	VCMPPS    $3, X, X, M; \
	VBLENDVPS M, Y15, T, X

// ADD adds a leaf, rounded as it enters, and rounds the sum.
#define ADD(LEAF, Y, X, T, M) \
	VMOVUPS LEAF, X; \
	ROUND(X, T, M); \
	VADDPS  X, Y, Y; \
	ROUND(Y, T, M)

#define JOINBF16(C, Y, X, T, M) \
	VMOVUPS C, X; \
	VADDPS  Y, X, Y; \
	ROUND(Y, T, M)

// func sumRowsBF16(acc *float32, rows *[]float32, k, lo, n, how int)
TEXT ·sumRowsBF16(SB), NOSPLIT, $0-48
	MOVQ     acc+0(FP), DI
	MOVQ     rows+8(FP), SI
	MOVQ     k+16(FP), R8
	MOVQ     lo+24(FP), R9
	MOVQ     n+32(FP), CX
	MOVQ     how+40(FP), DX
	SHLQ     $2, R9
	VPCMPEQD Y12, Y12, Y12
	VPSRLD   $17, Y12, Y13 // 0x7fff
	VPSLLD   $16, Y12, Y14 // 0xffff0000
	VPSRLD   $31, Y12, Y12 // 1
	MOVL     $0x7fc00000, AX
	MOVQ     AX, X15
	VPBROADCASTD X15, Y15

wide:
	CMPQ    CX, $32
	JLT     narrow
	NEGZERO(Y0)
	VMOVAPS Y0, Y1
	VMOVAPS Y0, Y2
	VMOVAPS Y0, Y3
	TESTQ   DX, DX
	JNZ     wideRows
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3

wideRows:
	MOVQ SI, R10
	MOVQ R8, R11

wideRow:
	MOVQ (R10), AX
	ADDQ R9, AX
	ADD((AX), Y0, Y4, Y5, Y6)
	ADD(32(AX), Y1, Y7, Y8, Y9)
	ADD(64(AX), Y2, Y10, Y11, Y4)
	ADD(96(AX), Y3, Y5, Y6, Y7)
	NEXTROW(wideRow)
	CMPQ DX, $2
	JNE  wideStore
	JOINBF16((DI), Y0, Y4, Y5, Y6)
	JOINBF16(32(DI), Y1, Y7, Y8, Y9)
	JOINBF16(64(DI), Y2, Y10, Y11, Y4)
	JOINBF16(96(DI), Y3, Y5, Y6, Y7)

wideStore:
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, R9
	SUBQ    $32, CX
	JMP     wide

narrow:
	CMPQ    CX, $8
	JLT     done
	NEGZERO(Y0)
	TESTQ   DX, DX
	JNZ     narrowRows
	VMOVUPS (DI), Y0

narrowRows:
	MOVQ SI, R10
	MOVQ R8, R11

narrowRow:
	MOVQ (R10), AX
	ADDQ R9, AX
	ADD((AX), Y0, Y4, Y5, Y6)
	NEXTROW(narrowRow)
	CMPQ DX, $2
	JNE  narrowStore
	JOINBF16((DI), Y0, Y4, Y5, Y6)

narrowStore:
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, R9
	SUBQ    $8, CX
	JMP     narrow

done:
	VZEROUPPER
	RET
