// swift-tools-version: 6.3
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

/// Warnings are errors in CI; a user's newer compiler may warn without breaking the build.
let strict: [SwiftSetting] =
  Context.environment["CI"] == nil ? [] : [.treatAllWarnings(as: .error)]

/// Of a concrete generic type a release build asks by its accessor, and not by its name: for each name the
/// runtime goes through all conformances of the program, which was half of what a node's start computed. Functions
/// in sections of their own are left out where nothing calls them, and can be ordered by `tools/start-order`.
let direct: [SwiftSetting] = [
  .unsafeFlags(
    [
      "-Xfrontend", "-disable-concrete-type-metadata-mangled-name-accessors",
      "-Xfrontend", "-function-sections",
    ], .when(configuration: .release))
]

/// Lets a program compile the runtime's generic code for its own machines: a step is then four times
/// cheaper. SwiftPM takes such a flag from a dependency by version, too, of a package with tools version 6.2 or later.
let specialized: [SwiftSetting] =
  direct + [.unsafeFlags(["-cross-module-optimization"], .when(configuration: .release))]

/// Makes a debug build quick where it spends most of its time: a search visits millions of states, and
/// the tests read the logs and the processes of their nodes again and again.
let optimized: [SwiftSetting] = [.unsafeFlags(["-O"], .when(configuration: .debug))]

let package = Package(
  name: "PipeRuntime",
  // Where the portable product `PipeMachines` may be used. The rest runs on Linux alone.
  platforms: [
    .macOS("15.4"), .iOS("18.4"), .tvOS("18.4"), .watchOS("11.4"), .visionOS("2.4"),
  ],
  products: [
    .library(name: "PipeRuntime", targets: ["PipeRuntime"]),
    .library(name: "PipeMachines", targets: ["PipeMachines"]),
    .library(name: "PipeRuntimeTestKit", targets: ["PipeRuntimeTestKit"]),
    .executable(name: "nodes", targets: ["Nodes"]),
    .executable(name: "shop", targets: ["ShopVersion1"]),
    .executable(name: "shop-2", targets: ["ShopVersion2"]),
    .executable(name: "orchestrator", targets: ["orchestrator"]),
    .executable(name: "inspector", targets: ["inspector"]),
    .executable(name: "benchmarks", targets: ["Benchmarks"]),
    .executable(name: "soak", targets: ["Soak"]),
  ],
  targets: [
    // Without pkg-config: Debian's libzmq.pc asks for a flag that SwiftPM refuses, with a warning each time.
    .systemLibrary(
      name: "CZMQ",
      providers: [.apt(["libzmq3-dev"]), .yum(["zeromq-devel"]), .brew(["zeromq"])]),
    .systemLibrary(
      name: "CYAML", path: "Sources/CLibraries/CYAML", pkgConfig: "yaml-0.1",
      providers: [.apt(["libyaml-dev"]), .yum(["libyaml-devel"]), .brew(["libyaml"])]),
    .systemLibrary(
      name: "CSQLite", path: "Sources/CLibraries/CSQLite", pkgConfig: "sqlite3",
      providers: [.apt(["libsqlite3-dev"]), .yum(["sqlite-devel"]), .brew(["sqlite"])]),
    // Of the inspector alone: neither nodes nor the orchestrator link it.
    .systemLibrary(
      name: "CMicroHTTPD", path: "Sources/CLibraries/CMicroHTTPD",
      providers: [
        .apt(["libmicrohttpd-dev"]), .yum(["libmicrohttpd-devel"]), .brew(["libmicrohttpd"]),
      ]),
    .target(name: "CProcess", cSettings: [.unsafeFlags(["-O2"], .when(configuration: .debug))]),
    .target(name: "PipeSupport", swiftSettings: strict + specialized + optimized),
    .target(
      name: "PipeMachines", dependencies: ["PipeSupport"], swiftSettings: strict + specialized),
    .target(
      name: "PipeSystem", dependencies: ["PipeSupport", "CProcess"],
      swiftSettings: strict + specialized + optimized),
    .target(
      name: "PipeWire", dependencies: ["PipeMachines", "PipeSystem", "PipeSupport", "CProcess"],
      swiftSettings: strict + specialized),
    .target(
      name: "PipeTopology",
      dependencies: ["PipeWire", "PipeMachines", "PipeSystem", "PipeSupport", "CYAML"],
      swiftSettings: strict + direct),
    .target(
      name: "PipeTransport",
      dependencies: ["PipeWire", "PipeMachines", "PipeSystem", "PipeSupport", "CZMQ", "CProcess"],
      swiftSettings: strict + specialized),
    .target(
      name: "PipeJournal",
      dependencies: ["PipeWire", "PipeMachines", "PipeSystem", "PipeSupport", "CSQLite"],
      swiftSettings: strict + specialized),
    .target(
      name: "PipeNode",
      dependencies: [
        "PipeJournal", "PipeTransport", "PipeWire", "PipeMachines", "PipeSystem", "PipeSupport",
        "CProcess",
      ],
      swiftSettings: strict + specialized),
    .target(
      name: "PipeClient",
      dependencies: [
        "PipeJournal", "PipeTransport", "PipeWire", "PipeMachines", "PipeSystem", "PipeSupport",
        "CProcess",
      ],
      swiftSettings: strict + direct),
    .target(
      name: "PipeSupervision",
      dependencies: [
        "PipeClient", "PipeTopology", "PipeTransport", "PipeJournal", "PipeWire", "PipeMachines",
        "PipeSystem", "PipeSupport", "CProcess",
      ],
      swiftSettings: strict + direct),
    .target(
      name: "PipeDiagrams", dependencies: ["PipeWire", "PipeMachines", "PipeSupport"],
      swiftSettings: strict + direct + optimized),
    .target(
      name: "PipeKubernetes",
      dependencies: ["PipeTopology", "PipeWire", "PipeMachines", "PipeSupport"],
      swiftSettings: strict + direct),
    .target(
      name: "PipeModelChecker",
      dependencies: [
        "PipeDiagrams", "PipeSupervision", "PipeNode", "PipeClient", "PipeTopology", "PipeWire",
        "PipeMachines", "PipeSystem", "PipeSupport",
      ],
      swiftSettings: strict + direct + optimized),
    .target(
      name: "PipeInspector",
      dependencies: [
        "PipeDiagrams", "PipeClient", "PipeJournal", "PipeWire", "PipeMachines", "PipeSystem",
        "PipeSupport",
        "CMicroHTTPD",
      ],
      resources: [
        .embedInCode("Page/page.html"), .embedInCode("Page/page.css"),
        .embedInCode("Page/icon.svg"), .embedInCode("Page/page.js"),
        .embedInCode("Page/panels.js"), .embedInCode("Page/graph.js"),
        .embedInCode("Page/health.js"),
        .embedInCode("Page/node.js"), .embedInCode("Page/sequence.js"),
        .embedInCode("Page/logs.js"), .embedInCode("Page/fold.js"),
        .embedInCode("Page/moment.js"), .embedInCode("Page/act.js"),
        .embedInCode("Page/talk.js"), .embedInCode("Page/text.js"),
        .embedInCode("Page/trace.js"), .embedInCode("Page/timeline.js"),
        .embedInCode("Page/states.js"), .embedInCode("Page/pulse.js"),
        .embedInCode("Page/export.js"),
        .embedInCode("Page/keys.js"),
      ],
      swiftSettings: strict + direct),
    .target(
      name: "PipeRuntime",
      dependencies: [
        "PipeClient", "PipeNode", "PipeJournal", "PipeTopology", "PipeTransport", "PipeWire",
        "PipeMachines",
        "PipeSystem", "PipeSupport", "CProcess",
      ],
      swiftSettings: strict + specialized),
    .target(
      name: "PipeRuntimeTestKit", dependencies: ["PipeRuntime", "PipeSupervision"],
      swiftSettings: strict),
    .target(
      name: "Kettles", dependencies: ["PipeRuntime"], path: "Sources/Nodes/Kettle",
      swiftSettings: strict + direct),
    .target(
      name: "Screens", dependencies: ["PipeRuntime"], path: "Sources/Nodes/Screens",
      swiftSettings: strict + direct),
    .target(
      name: "Compositions", dependencies: ["PipeRuntime"], path: "Sources/Nodes/Compositions",
      swiftSettings: strict + direct),
    .target(
      name: "Shop", dependencies: ["PipeRuntime"], path: "Sources/Nodes/Shop",
      exclude: ["Version1", "Version2", "front_end.py", "gateway.py"],
      swiftSettings: strict + direct),
    .executableTarget(
      name: "ShopVersion1", dependencies: ["PipeRuntime", "Shop"],
      path: "Sources/Nodes/Shop/Version1", swiftSettings: strict + direct),
    .executableTarget(
      name: "ShopVersion2", dependencies: ["PipeRuntime", "Shop"],
      path: "Sources/Nodes/Shop/Version2", swiftSettings: strict + direct),
    .executableTarget(
      name: "Nodes", dependencies: ["PipeRuntime", "Kettles", "Screens", "Compositions"],
      exclude: ["Kettle", "Screens", "Compositions", "Shop"], swiftSettings: strict + direct),
    .executableTarget(
      name: "orchestrator",
      dependencies: [
        "PipeRuntime", "PipeSupervision", "PipeModelChecker", "PipeDiagrams", "PipeKubernetes",
      ],
      swiftSettings: strict + direct),
    .executableTarget(
      name: "inspector",
      dependencies: ["PipeInspector", "PipeClient", "PipeSystem", "PipeSupport"],
      swiftSettings: strict + direct),
    .target(name: "CAllocations", path: "Benchmarks/CAllocations"),
    .executableTarget(
      name: "Benchmarks",
      dependencies: [
        "PipeRuntime", "PipeSupervision", "PipeModelChecker", "Kettles", "CZMQ", "CProcess",
        "CAllocations",
      ],
      path: "Benchmarks", exclude: ["CAllocations"], swiftSettings: strict + direct),
    .target(
      name: "NumberMachines", dependencies: ["PipeRuntime"], path: "Tests/Programs/NumberMachines",
      swiftSettings: strict + direct),
    .executableTarget(
      name: "TestNodes", dependencies: ["PipeRuntime", "NumberMachines"],
      path: "Tests/Programs/TestNodes",
      swiftSettings: strict + direct),
    .executableTarget(
      name: "Soak",
      dependencies: [
        "PipeRuntime", "PipeSupervision", "PipeModelChecker", "PipeRuntimeTestKit",
        "NumberMachines",
      ],
      path: "Tests/Programs/Soak", swiftSettings: strict),
    .executableTarget(
      name: "CrashingTest", dependencies: ["PipeRuntimeTestKit"],
      path: "Tests/Programs/CrashingTest",
      swiftSettings: strict),
    .executableTarget(
      name: "Fuzz", dependencies: ["PipeRuntime", "PipeInspector"],
      path: "Tests/Programs/Fuzz", exclude: ["corpus"],
      swiftSettings: strict),
    .target(
      name: "TestTraits", dependencies: ["PipeRuntime", "PipeRuntimeTestKit"],
      path: "Tests/TestTraits",
      swiftSettings: strict),
    .target(
      name: "KettleSuite", dependencies: ["PipeRuntime", "PipeRuntimeTestKit", "Kettles"],
      path: "Tests/Programs/KettleSuite", swiftSettings: strict),
    .target(
      name: "TestSupport",
      dependencies: ["PipeDiagrams", "PipeClient", "PipeSystem", "PipeSupport"],
      path: "Tests/TestSupport",
      swiftSettings: strict),
    .testTarget(
      name: "PortableMachinesTests", dependencies: ["PipeMachines"], swiftSettings: strict),
    .testTarget(
      name: "PipeSupportTests",
      dependencies: ["PipeSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "PipeSystemTests",
      dependencies: ["PipeSystem", "PipeSupport", "TestSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "PipeMachinesTests",
      dependencies: [
        "PipeMachines", "PipeSupport", "PipeRuntimeTestKit", "TestSupport", "TestTraits",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeWireTests",
      dependencies: ["PipeWire", "PipeMachines", "PipeSystem", "TestSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "PipeTopologyTests",
      dependencies: [
        "PipeTopology", "PipeWire", "PipeMachines", "PipeSystem", "PipeSupport", "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeTransportTests",
      dependencies: [
        "PipeTransport", "PipeWire", "PipeSystem", "PipeSupport", "PipeRuntimeTestKit",
        "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeJournalTests",
      dependencies: [
        "PipeJournal", "PipeNode", "PipeWire", "PipeMachines", "PipeSystem", "PipeSupport",
        "CSQLite", "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeNodeTests",
      dependencies: [
        "PipeNode", "PipeClient", "PipeJournal", "PipeWire", "PipeMachines", "PipeSupport",
        "PipeRuntimeTestKit", "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeClientTests",
      dependencies: [
        "PipeClient", "PipeSupervision", "PipeTransport", "PipeWire", "PipeMachines", "PipeSystem",
        "PipeSupport", "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeSupervisionTests",
      dependencies: [
        "PipeSupervision", "PipeClient", "PipeTopology", "PipeWire", "PipeMachines", "PipeSystem",
        "PipeSupport", "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeModelCheckerSearchTests", dependencies: ["PipeModelChecker"],
      swiftSettings: strict + optimized),
    .testTarget(
      name: "PipeKubernetesTests",
      dependencies: ["PipeKubernetes", "PipeRuntime"], swiftSettings: strict),
    .testTarget(
      name: "PipeDiagramsTests",
      dependencies: [
        "PipeDiagrams", "PipeWire", "PipeMachines", "PipeSystem", "PipeSupport", "TestSupport",
      ],
      exclude: ["Traces/goldens"], swiftSettings: strict + optimized),
    .testTarget(
      name: "PipeModelCheckerTests",
      dependencies: [
        "PipeModelChecker", "PipeDiagrams", "PipeSupervision", "PipeRuntime", "Nodes",
        "ShopVersion1", "TestNodes", "TestSupport", "TestTraits",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeInspectorTests",
      dependencies: ["PipeInspector", "PipeRuntime", "PipeRuntimeTestKit", "TestTraits"],
      swiftSettings: strict),
    .testTarget(
      name: "SeedTests",
      dependencies: [
        "PipeRuntime", "PipeRuntimeTestKit", "Nodes", "Kettles", "Screens", "Compositions",
        "KettleSuite", "TestTraits",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PipeRuntimeTestKitTests",
      dependencies: ["PipeRuntime", "PipeRuntimeTestKit", "TestTraits"],
      swiftSettings: strict),
    .testTarget(
      name: "DocumentationTests",
      dependencies: ["PipeRuntime", "PipeRuntimeTestKit", "TestTraits"],
      swiftSettings: strict),
    .testTarget(
      name: "NodesTests",
      dependencies: [
        "Nodes", "Kettles", "Screens", "Compositions", "Shop", "ShopVersion2", "PipeRuntime",
        "PipeRuntimeTestKit", "TestTraits",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "EndToEndTests",
      dependencies: [
        "PipeRuntime", "PipeSupervision", "PipeModelChecker", "PipeDiagrams",
        "PipeRuntimeTestKit", "Nodes", "Kettles", "Screens", "Compositions", "Shop",
        "ShopVersion1", "ShopVersion2", "NumberMachines",
        "TestNodes", "CrashingTest", "Soak", "Fuzz", "orchestrator", "inspector", "PipeInspector",
        "CSQLite", "KettleSuite", "TestTraits",
      ],
      exclude: ["Slurm/cluster.sh"],
      swiftSettings: strict),
  ]
)

// What starts processes is out of a sanitizer's sight: where only the unit tests are wanted, it is not built.
if Context.environment["PIPERUNTIME_UNIT_TESTS"] != nil {
  package.targets.removeAll { ["EndToEndTests", "PipeModelCheckerTests"].contains($0.name) }
}
