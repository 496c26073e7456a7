#include "textflag.h"

// func pack16(dst, src *float32, step, n int)
TEXT ·pack16(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ step+16(FP), R8
	MOVQ n+24(FP), CX
	SHLQ $2, R8

next:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    R8, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     next
	VZEROUPPER
	RET

// func pack6(dst, src *float32, step, n int)
TEXT ·pack6(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ step+16(FP), R8
	MOVQ n+24(FP), CX
	SHLQ $2, R8

next:
	VMOVUPS (SI), X0
	MOVQ    16(SI), AX
	VMOVUPS X0, (DI)
	MOVQ    AX, 16(DI)
	ADDQ    R8, SI
	ADDQ    $24, DI
	DECQ    CX
	JNZ     next
	RET

// Two rows of four, in the halves of a register.
#define LOAD(LOW, HIGH, X, Y) \
	VMOVUPS     LOW, X; \
	VINSERTF128 $1, HIGH, Y, Y

// func transpose8(dst, src *float32, ld, n int)
TEXT ·transpose8(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), R8
	MOVQ n+24(FP), CX
	SHLQ $2, R8
	LEAQ (R8)(R8*2), R9
	LEAQ (SI)(R9*1), DX // the fourth row
	LEAQ (DX)(R9*1), BX // the seventh
	SHRQ $2, CX

next:
	LOAD((SI), (DX)(R8*1), X0, Y0)
	LOAD((SI)(R8*1), (DX)(R8*2), X1, Y1)
	LOAD((SI)(R8*2), (BX), X2, Y2)
	LOAD((DX), (BX)(R8*1), X3, Y3)
	VUNPCKLPS Y1, Y0, Y4
	VUNPCKHPS Y1, Y0, Y5
	VUNPCKLPS Y3, Y2, Y6
	VUNPCKHPS Y3, Y2, Y7
	VUNPCKLPD Y6, Y4, Y0
	VUNPCKHPD Y6, Y4, Y1
	VUNPCKLPD Y7, Y5, Y2
	VUNPCKHPD Y7, Y5, Y3
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 64(DI)
	VMOVUPS   Y2, 128(DI)
	VMOVUPS   Y3, 192(DI)
	ADDQ      $16, SI
	ADDQ      $16, DX
	ADDQ      $16, BX
	ADDQ      $256, DI
	DECQ      CX
	JNZ       next
	VZEROUPPER
	RET
