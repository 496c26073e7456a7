#include "textflag.h"

// Four lanes of float64 at a time, every lane by the steps of Exp and of expKernel, in their
// order: each product is rounded before it is added, no instruction fuses, and divisions divide.
// What Exp branches on is either kept out of the lanes (see plainLeast) or, where eˣ is 1+x,
// computed both ways and chosen.

// The rows of laneConstants.
#define HALF  (R8)
#define LOG2E 32(R8)
#define LN2HI 64(R8)
#define LN2LO 96(R8)
#define EXP1  128(R8)
#define EXP2  160(R8)
#define EXP3  192(R8)
#define EXP4  224(R8)
#define EXP5  256(R8)
#define ONE   288(R8)
#define TWO   320(R8)
#define TINY  352(R8)
#define SIGN  384(R8)
#define LEAST 416(R8)
#define MOST  448(R8)

// ENTER loads the arguments, and what stays in registers: 2, −0, 1.
#define ENTER \
	MOVQ    dst+0(FP), DI; \
	MOVQ    src+8(FP), SI; \
	MOVQ    n+16(FP), CX; \
	XORQ    DX, DX; \
	LEAQ    ·laneConstants(SB), R8; \
	VMOVUPD TWO, Y13; \
	VMOVUPD SIGN, Y14; \
	VMOVUPD ONE, Y15

// MORE goes to done after n elements.
#define MORE \
	CMPQ DX, CX; \
	JGE  done

#define LEAVE \
	MOVQ DX, ret+24(FP); \
	VZEROUPPER; \
	RET

// LOAD takes the next eight elements into Y9 and Y10. STORE puts Y1 where they go; float32 is
// rounded here and nowhere before.
#define LOAD32 \
	VCVTPS2PD (SI)(DX*4), Y9; \
	VCVTPS2PD 16(SI)(DX*4), Y10

#define LOAD64 \
	VMOVUPD (SI)(DX*8), Y9; \
	VMOVUPD 32(SI)(DX*8), Y10

#define STORE32(AT) \
	VCVTPD2PSY Y1, X1; \
	VMOVUPS    X1, AT

#define STORE64(AT) \
	VMOVUPD Y1, AT

// PLAIN goes to done unless all of Y9 and Y10 are from plainLeast to plainMost, MAGNITUDES unless
// all of −|Y9| and −|Y10| are. No comparison is true of NaN.
#define PLAIN \
	VCMPPD    $13, LEAST, Y9, Y0; \
	VCMPPD    $2, MOST, Y9, Y1; \
	VCMPPD    $13, LEAST, Y10, Y2; \
	VCMPPD    $2, MOST, Y10, Y3; \
	VANDPD    Y1, Y0, Y0; \
	VANDPD    Y3, Y2, Y2; \
	VANDPD    Y2, Y0, Y0; \
	VMOVMSKPD Y0, AX; \
	CMPL      AX, $15; \
	JNE       done

#define MAGNITUDES \
	VORPD     Y14, Y9, Y0; \
	VORPD     Y14, Y10, Y1; \
	VCMPPD    $13, LEAST, Y0, Y0; \
	VCMPPD    $13, LEAST, Y1, Y1; \
	VANDPD    Y1, Y0, Y0; \
	VMOVMSKPD Y0, AX; \
	CMPL      AX, $15; \
	JNE       done

// EXP is Y1 = e^Y0. It uses Y2 to Y8.
//
//	Y3 = k, then 2ᵏ ;  Y4 = k, then lo ;  Y5 = hi ;  Y6 = r ;  Y7 = t ;  Y8 = c
#define EXP \
	VANDPD      Y14, Y0, Y2; \
	VORPD       HALF, Y2, Y2; \
	VMULPD      LOG2E, Y0, Y3; \
	VADDPD      Y2, Y3, Y3; \
	VCVTTPD2DQY Y3, X3; \
	VCVTDQ2PD   X3, Y4; \
	VPMOVSXDQ   X3, Y3; \
	VPSLLQ      $52, Y3, Y3; \
	VPADDQ      Y15, Y3, Y3; \
	VMULPD      LN2HI, Y4, Y5; \
	VSUBPD      Y5, Y0, Y5; \
	VMULPD      LN2LO, Y4, Y4; \
	VSUBPD      Y4, Y5, Y6; \
	VMULPD      Y6, Y6, Y7; \
	VMULPD      EXP5, Y7, Y8; \
	VADDPD      EXP4, Y8, Y8; \
	VMULPD      Y8, Y7, Y8; \
	VADDPD      EXP3, Y8, Y8; \
	VMULPD      Y8, Y7, Y8; \
	VADDPD      EXP2, Y8, Y8; \
	VMULPD      Y8, Y7, Y8; \
	VADDPD      EXP1, Y8, Y8; \
	VMULPD      Y8, Y7, Y8; \
	VSUBPD      Y8, Y6, Y8; \
	VMULPD      Y8, Y6, Y7; \
	VSUBPD      Y8, Y13, Y8; \
	VDIVPD      Y8, Y7, Y7; \
	VSUBPD      Y7, Y4, Y4; \
	VSUBPD      Y5, Y4, Y4; \
	VSUBPD      Y4, Y15, Y4; \
	VMULPD      Y3, Y4, Y1; \
	VANDNPD     Y0, Y14, Y2; \
	VCMPPD      $1, TINY, Y2, Y2; \
	VADDPD      Y0, Y15, Y5; \
	VBLENDVPD   Y2, Y5, Y1, Y1

// SIGMOID is Y1 = σ(Y9): over 1+e, e = e^−|Y9|, stands 1 where Y9 ≥ 0 and e elsewhere. It uses
// Y0 to Y8. For −0 the two are the same.
#define SIGMOID \
	VORPD     Y14, Y9, Y0; \
	EXP; \
	VADDPD    Y1, Y15, Y2; \
	VBLENDVPD Y9, Y1, Y15, Y1; \
	VDIVPD    Y2, Y1, Y1

#define SILU \
	SIGMOID; \
	VMULPD Y1, Y9, Y1

// func exp32(dst, src *float32, n int) int
TEXT ·exp32(SB), NOSPLIT, $0-32
	ENTER

	PCALIGN $32

next:
	MORE
	LOAD32
	PLAIN
	VMOVAPD Y9, Y0
	EXP
	STORE32((DI)(DX*4))
	VMOVAPD Y10, Y0
	EXP
	STORE32(16(DI)(DX*4))
	ADDQ $8, DX
	JMP  next

done:
	LEAVE

// func exp64(dst, src *float64, n int) int
TEXT ·exp64(SB), NOSPLIT, $0-32
	ENTER

	PCALIGN $32

next:
	MORE
	LOAD64
	PLAIN
	VMOVAPD Y9, Y0
	EXP
	STORE64((DI)(DX*8))
	VMOVAPD Y10, Y0
	EXP
	STORE64(32(DI)(DX*8))
	ADDQ $8, DX
	JMP  next

done:
	LEAVE

// func sigmoid32(dst, src *float32, n int) int
TEXT ·sigmoid32(SB), NOSPLIT, $0-32
	ENTER

	PCALIGN $32

next:
	MORE
	LOAD32
	MAGNITUDES
	SIGMOID
	STORE32((DI)(DX*4))
	VMOVAPD Y10, Y9
	SIGMOID
	STORE32(16(DI)(DX*4))
	ADDQ $8, DX
	JMP  next

done:
	LEAVE

// func sigmoid64(dst, src *float64, n int) int
TEXT ·sigmoid64(SB), NOSPLIT, $0-32
	ENTER

	PCALIGN $32

next:
	MORE
	LOAD64
	MAGNITUDES
	SIGMOID
	STORE64((DI)(DX*8))
	VMOVAPD Y10, Y9
	SIGMOID
	STORE64(32(DI)(DX*8))
	ADDQ $8, DX
	JMP  next

done:
	LEAVE

// func silu32(dst, src *float32, n int) int
TEXT ·silu32(SB), NOSPLIT, $0-32
	ENTER

	PCALIGN $32

next:
	MORE
	LOAD32
	MAGNITUDES
	SILU
	STORE32((DI)(DX*4))
	VMOVAPD Y10, Y9
	SILU
	STORE32(16(DI)(DX*4))
	ADDQ $8, DX
	JMP  next

done:
	LEAVE

// func silu64(dst, src *float64, n int) int
TEXT ·silu64(SB), NOSPLIT, $0-32
	ENTER

	PCALIGN $32

next:
	MORE
	LOAD64
	MAGNITUDES
	SILU
	STORE64((DI)(DX*8))
	VMOVAPD Y10, Y9
	SILU
	STORE64(32(DI)(DX*8))
	ADDQ $8, DX
	JMP  next

done:
	LEAVE
