internal import Kernel2048
internal import Platform

#if canImport(Kernel2048AVX2)
internal import Kernel2048AVX2
#endif

/// The kernel's operations, which two modules compile from the same files; Kernel.swift says what each does.
///
/// They are called once for 64 boards, through the conforming type: nothing is allocated or captured.
protocol KernelOperations: SendableMetatype {
    static func step(
        _ block: KernelBlock, actions: UnsafeRawPointer, rules: KernelRules, _ outputs: KernelOutputs,
        _ stepOutputs: KernelStepOutputs, scratch: KernelScratch)
    static func report(
        _ program: KernelRewardProgram, _ outputs: KernelReportOutputs, scratch: KernelScratch)
    static func start(_ block: KernelBlock, lane: Int, rules: KernelRules)
    static func observe(
        _ block: KernelBlock, rules: KernelRules, _ outputs: KernelOutputs, scratch: KernelScratch)
    static func afterstates(
        _ block: KernelBlock, boards: UnsafeMutableRawPointer, rewards: UnsafeMutableRawPointer,
        mask: UnsafeMutableRawPointer, scratch: KernelScratch)
    static func load(_ boards: UnsafeRawPointer, into block: KernelBlock, scratch: KernelScratch)
    static func move(
        _ block: KernelBlock, actions: UnsafeRawPointer, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, legal: UnsafeMutableRawPointer, scratch: KernelScratch)
    static func legal(_ block: KernelBlock, mask: UnsafeMutableRawPointer, scratch: KernelScratch)
    static func spawn(
        _ block: KernelBlock, fourThreshold: UInt64, boards: UnsafeMutableRawPointer,
        outcomes: UnsafeMutableRawPointer, scratch: KernelScratch)
}

extension Kernel2048.Kernel: KernelOperations {}

/// The two forms of the kernel.
enum Kernels {
    /// For every processor.
    static let baseline: any KernelOperations.Type = Kernel2048.Kernel.self

    #if canImport(Kernel2048AVX2)
    /// For processors with AVX2; the baseline on others.
    static let avx2: any KernelOperations.Type = hasAVX2 ? Kernel2048AVX2.Kernel.self : baseline
    #else
    /// There is no AVX2 on this kind of processor.
    static let avx2 = baseline
    #endif
}

#if canImport(Kernel2048AVX2)
extension Kernel2048AVX2.Kernel: KernelOperations {}
#endif

extension Engine {
    /// Whether ``avx2`` is more than the baseline here.
    public static var hasAVX2: Bool { Platform.hasAVX2 }
}
