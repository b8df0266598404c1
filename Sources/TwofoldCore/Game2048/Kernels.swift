internal import Kernel2048
internal import Platform

#if canImport(Kernel2048AVX2)
internal import Kernel2048AVX2
#endif

/// The two forms of the kernel: one for every processor, one for processors with AVX2.
enum Kernels {
    /// Returns the engine's kernel for boards of this size; nil if the readable rules run them.
    static func kernel(_ engine: Engine, rows: Int, columns: Int) -> (any KernelOperations.Type)? {
        switch engine {
        case .reference: return nil
        case .baseline: break
        case .automatic, .avx2:
            #if canImport(Kernel2048AVX2)
            if Engine.hasAVX2 { return Kernel2048AVX2.kernel(rows: rows, columns: columns) }
            #endif
        }
        return Kernel2048.kernel(rows: rows, columns: columns)
    }
}

extension Engine {
    /// Whether ``avx2`` differs from the baseline on this processor.
    public static var hasAVX2: Bool { Platform.hasAVX2 }
}
