// swift-tools-version: 6.2

import PackageDescription

/// The settings of all hand-written targets.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// The settings of modules whose tests use internal declarations. One build serves the tests and the products, so the
/// tests run the code that ships.
let testableSettings = settings + [.unsafeFlags(["-enable-testing"])]

/// The settings of tests that do little computation. Without optimisation, they compile in a third of the time.
let testSettings = settings + [.unsafeFlags(["-Onone"])]

/// The folder with Swift's static runtime for arm64. A build for arm64 on another processor sets TWOFOLD_ARM64 (see
/// python_client/packaging/arm64.py), because this file can't see what a build is for, and SwiftPM names only the folder
/// with the dynamic runtime.
let arm64Runtime = Context.environment["TWOFOLD_ARM64"]

/// Whether the package is compiled for x86-64.
#if arch(x86_64)
let targetsX86 = arm64Runtime == nil
#else
let targetsX86 = false
#endif

/// The flags that link the Swift runtime into a product, so that it runs where Swift is not installed. Only the linker
/// gets these flags, because tests must share Swift Testing's runtime. FoundationEssentials needs the two libraries.
let staticRuntime =
    ["-static-stdlib", "-l_FoundationCollections", "-l_FoundationCShims"]
    + (arm64Runtime.map { ["-resource-dir", $0] } ?? [])

/// The 2048 kernel, compiled a second time for AVX2. At startup, the program chooses the version that suits the
/// processor. Only this module gets the flag, so all other code runs on every processor.
let avx2Targets: [Target] =
    targetsX86
    ? [
        .target(
            name: "Kernel2048AVX2", dependencies: ["Kernel2048"],
            swiftSettings: settings + [.define("KERNEL_AVX2"), .unsafeFlags(["-Xcc", "-mavx2"])])
    ] : []

/// The target that `make fuzz` links with libFuzzer. It exists only if TWOFOLD_FUZZ is set, because nothing else uses
/// it.
let fuzzTargets: [Target] =
    Context.environment["TWOFOLD_FUZZ"] == nil
    ? []
    : [
        .target(
            name: "FuzzRequests", dependencies: ["CTwofold", "TwofoldEmbedded", "TwofoldProtocol"],
            path: "Tests/FuzzRequests", swiftSettings: settings)
    ]

/// Whether Platform uses functions that only Linux has. If TWOFOLD_POSIX is set, it uses POSIX alone, for a test of what
/// another system would need.
let usesLinux = Context.environment["TWOFOLD_POSIX"] == nil

/// Platform's C modules, of which CLinux needs Linux.
let linuxTargets: [Target] = usesLinux ? [.target(name: "CLinux")] : []
let platformModules: [Target.Dependency] = usesLinux ? ["CPlatform", "CLinux"] : ["CPlatform"]

/// The parts of targets that are left out: what needs Linux, or what replaces it. Swift 6.2 compiles the tests for arm64,
/// and can't compile exit tests that capture values.
let unusedPlatform = usesLinux ? ["POSIX"] : ["Linux"]
let unusedPlatformTests = usesLinux ? [] : ["Linux"]
let unusedEmbeddedTests = usesLinux && arm64Runtime == nil ? [] : ["ShortMemoryTests.swift"]
let unusedServerTests = usesLinux ? [] : ["AddressSpaceTests.swift"]

/// The settings that link libzmq. A wheel's server links libzmq statically, so that it runs without Debian's
/// library (see python_client/packaging). All other products use the system's libzmq.
let zeroMQ: [LinkerSetting] =
    Context.environment["TWOFOLD_ZEROMQ_ARCHIVES"].map { archives in
        [
            .unsafeFlags(archives.split(separator: ":").flatMap { ["-Xlinker", String($0)] }),
            .linkedLibrary("stdc++"),
        ]
    } ?? [.linkedLibrary("zmq")]

/// The `Sources` folder, for settings that contain paths.
let sources = Context.packageDirectory + "/Sources"

let package = Package(
    name: "twofold",
    products: [
        .executable(name: "twofold-server", targets: ["twofold-server"]),
        .library(name: "twofold", type: .dynamic, targets: ["twofold-library"]),
        .library(name: "twofold-simulation", type: .dynamic, targets: ["TwofoldSimulation"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        // Without traits, because SwiftPM passes their flags in random order and then compiles the package again.
        .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0", traits: []),
    ],
    targets: [
        .target(name: "CPlatform"),
        .target(
            name: "Platform", dependencies: platformModules, exclude: unusedPlatform,
            swiftSettings: testableSettings),
        .systemLibrary(name: "CZeroMQ"),
        .target(
            name: "ZeroMQ", dependencies: ["CZeroMQ", "Platform"], swiftSettings: testableSettings,
            linkerSettings: zeroMQ),
        .target(name: "Kernel2048", swiftSettings: settings),
        .target(
            name: "TwofoldCore",
            dependencies: ["Kernel2048", "Platform"] + avx2Targets.map { .target(name: $0.name) },
            swiftSettings: testableSettings),
        .target(
            name: "TwofoldOptimum", dependencies: ["Platform", "TwofoldCore"], swiftSettings: testableSettings
        ),
        .target(
            name: "TwofoldProtocol",
            dependencies: [.product(name: "SwiftProtobuf", package: "swift-protobuf")]),
        .target(
            name: "TwofoldService",
            dependencies: ["Platform", "TwofoldCore", "TwofoldOptimum", "TwofoldProtocol"],
            swiftSettings: settings),
        .target(
            name: "TwofoldSessions",
            dependencies: ["Platform", "TwofoldCore", "TwofoldOptimum", "TwofoldProtocol", "TwofoldService"],
            swiftSettings: testableSettings),
        .target(
            name: "TwofoldServer",
            dependencies: [
                "Platform", "TwofoldCore", "TwofoldService", "TwofoldSessions", "ZeroMQ",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: testableSettings),
        .systemLibrary(name: "CTwofold"),
        .target(
            name: "TwofoldEmbedded",
            dependencies: [
                "CTwofold", "Platform", "TwofoldCore", "TwofoldProtocol", "TwofoldService", "TwofoldSessions",
            ],
            swiftSettings: settings),
        .target(
            name: "twofold-library", dependencies: ["TwofoldEmbedded"], exclude: ["twofold.map"],
            swiftSettings: settings,
            linkerSettings: [
                .unsafeFlags(
                    staticRuntime + [
                        "-Xlinker", "--version-script=\(sources)/twofold-library/twofold.map",
                        "-Xlinker", "--strip-all", "-Xlinker", "-soname=libtwofold.so",
                    ])
            ]),
        .target(name: "TwofoldBench", dependencies: ["Platform", "TwofoldCore"], swiftSettings: settings),
        .executableTarget(
            name: "twofold-server",
            dependencies: [
                "Platform", "TwofoldBench", "TwofoldCore", "TwofoldOptimum", "TwofoldServer",
                "TwofoldSessions", "ZeroMQ",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings,
            linkerSettings: [.unsafeFlags(staticRuntime)]),
        .testTarget(
            name: "PlatformTests", dependencies: platformModules + ["Platform"],
            exclude: unusedPlatformTests, swiftSettings: testSettings),
        .testTarget(name: "ZeroMQTests", dependencies: ["Platform", "ZeroMQ"], swiftSettings: testSettings),
        .testTarget(
            name: "TwofoldCoreTests", dependencies: ["Platform", "TwofoldCore"], swiftSettings: settings),
        .testTarget(
            name: "TwofoldOptimumTests", dependencies: ["Platform", "TwofoldCore", "TwofoldOptimum"],
            swiftSettings: settings),
        .testTarget(
            name: "TwofoldProtocolTests",
            dependencies: ["TwofoldProtocol", .product(name: "SwiftProtobuf", package: "swift-protobuf")],
            swiftSettings: testSettings),
        .testTarget(
            name: "TwofoldServiceTests",
            dependencies: ["Platform", "TwofoldOptimum", "TwofoldService", "TwofoldTestSupport"],
            swiftSettings: testSettings),
        .target(
            name: "TwofoldTestSupport", dependencies: ["TwofoldProtocol"], path: "Tests/Support",
            swiftSettings: settings),
        .target(
            name: "TwofoldSimulation",
            dependencies: [
                "CTwofold", "Platform", "TwofoldCore", "TwofoldEmbedded", "TwofoldProtocol", "TwofoldServer",
                "TwofoldService", "TwofoldSessions", "TwofoldTestSupport", "ZeroMQ",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Tests/Simulation", swiftSettings: testableSettings),
        .testTarget(
            name: "TwofoldSimulationTests", dependencies: ["TwofoldSimulation", "TwofoldTestSupport"],
            swiftSettings: testSettings),
        .testTarget(
            name: "TwofoldSessionsTests",
            dependencies: ["Platform", "TwofoldSessions", "TwofoldTestSupport"],
            swiftSettings: testSettings),
        .testTarget(
            name: "TwofoldEmbeddedTests",
            dependencies: [
                "CTwofold", "Platform", "TwofoldEmbedded", "TwofoldSessions", "TwofoldTestSupport",
            ],
            exclude: unusedEmbeddedTests, swiftSettings: testSettings),
        .testTarget(
            name: "TwofoldServerTests",
            dependencies: ["Platform", "TwofoldServer", "TwofoldSessions", "TwofoldTestSupport"],
            exclude: unusedServerTests, swiftSettings: testSettings),
    ]
)

// because: Swift 6.2 takes too long to check one expression with all of them.
package.products += fuzzTargets.map { .library(name: $0.name, type: .static, targets: [$0.name]) }
package.targets += linuxTargets + avx2Targets + fuzzTargets
