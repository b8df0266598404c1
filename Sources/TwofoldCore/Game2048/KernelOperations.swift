internal import CLinux
internal import Kernel2048

#if canImport(Kernel2048AVX2)
internal import Kernel2048AVX2
#endif

/// The kernel's operations in one of the two forms in which it was compiled; see Kernel.swift for what
/// each does.
struct KernelOperations: Sendable {
    let step:
        @Sendable (
            UnsafeMutableRawPointer, UnsafeRawPointer, KernelRules, KernelOutputs, KernelStepOutputs,
            UnsafeMutableRawPointer
        ) -> Void
    let observe:
        @Sendable (UnsafeMutableRawPointer, KernelRules, KernelOutputs, UnsafeMutableRawPointer) -> Void
    let afterstates:
        @Sendable (
            UnsafeMutableRawPointer, UnsafeMutableRawPointer, UnsafeMutableRawPointer,
            UnsafeMutableRawPointer, UnsafeMutableRawPointer
        ) -> Void
    let report: @Sendable (KernelRewardProgram, KernelReportOutputs, UnsafeMutableRawPointer) -> Void
    let load: @Sendable (UnsafeRawPointer, UnsafeMutableRawPointer, UnsafeMutableRawPointer) -> Void
    let move:
        @Sendable (
            UnsafeMutableRawPointer, UnsafeRawPointer, UnsafeMutableRawPointer, UnsafeMutableRawPointer,
            UnsafeMutableRawPointer, UnsafeMutableRawPointer
        ) -> Void
    let legal: @Sendable (UnsafeMutableRawPointer, UnsafeMutableRawPointer, UnsafeMutableRawPointer) -> Void
    let spawn:
        @Sendable (
            UnsafeMutableRawPointer, UInt64, UnsafeMutableRawPointer, UnsafeMutableRawPointer,
            UnsafeMutableRawPointer
        ) -> Void

    /// For every processor.
    static let baseline = KernelOperations(
        step: { Kernel2048.Kernel.step($0, actions: $1, rules: $2, $3, $4, scratch: $5) },
        observe: { Kernel2048.Kernel.observe($0, rules: $1, $2, scratch: $3) },
        afterstates: {
            Kernel2048.Kernel.afterstates($0, boards: $1, rewards: $2, mask: $3, scratch: $4)
        },
        report: { Kernel2048.Kernel.report($0, $1, scratch: $2) },
        load: { Kernel2048.Kernel.load($0, into: $1, scratch: $2) },
        move: {
            Kernel2048.Kernel.move($0, actions: $1, boards: $2, rewards: $3, legal: $4, scratch: $5)
        },
        legal: { Kernel2048.Kernel.legal($0, mask: $1, scratch: $2) },
        spawn: {
            Kernel2048.Kernel.spawn($0, fourThreshold: $1, boards: $2, outcomes: $3, scratch: $4)
        })

    #if canImport(Kernel2048AVX2)
    /// For processors with AVX2; the baseline on others.
    static let avx2 =
        !twofold_has_avx2()
        ? baseline
        : KernelOperations(
            step: { Kernel2048AVX2.Kernel.step($0, actions: $1, rules: $2, $3, $4, scratch: $5) },
            observe: { Kernel2048AVX2.Kernel.observe($0, rules: $1, $2, scratch: $3) },
            afterstates: {
                Kernel2048AVX2.Kernel.afterstates($0, boards: $1, rewards: $2, mask: $3, scratch: $4)
            },
            report: { Kernel2048AVX2.Kernel.report($0, $1, scratch: $2) },
            load: { Kernel2048AVX2.Kernel.load($0, into: $1, scratch: $2) },
            move: {
                Kernel2048AVX2.Kernel.move($0, actions: $1, boards: $2, rewards: $3, legal: $4, scratch: $5)
            },
            legal: { Kernel2048AVX2.Kernel.legal($0, mask: $1, scratch: $2) },
            spawn: {
                Kernel2048AVX2.Kernel.spawn($0, fourThreshold: $1, boards: $2, outcomes: $3, scratch: $4)
            })
    #else
    /// There is no AVX2 on this kind of processor.
    static let avx2 = baseline
    #endif
}

extension Engine {
    /// Whether ``avx2`` is more than the baseline here.
    public static var hasAVX2: Bool { twofold_has_avx2() }
}
