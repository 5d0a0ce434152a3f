import Glibc
import PipeRuntime

/// A file of a package: its path within the package's folder, and its text.
package struct PackageFile: Hashable, Sendable {
  package var path: String
  package var text: String

  package init(path: String, text: String) {
    self.path = path
    self.text = text
  }
}

/// The package that `init` writes. As an example, it contains the machine of a traffic light, which
/// changes its state by itself.
package struct PackageTemplate: Sendable {
  package let name: PackageName
  /// The path of the PipeRuntime folder. It is absolute, or relative to the package's folder.
  package let dependency: String

  package init(name: PackageName, dependency: String) {
    self.name = name
    self.dependency = dependency
  }

  /// The types that the template's code declares. A module must not have the same name as one of
  /// these types, since the module would hide the type.
  static let typeNames: Set<String> = ["Program", "TrafficLight"]

  package var files: [PackageFile] {
    [
      PackageFile(path: ".gitignore", text: ".build/\n"),
      PackageFile(path: "Makefile", text: makefileText),
      PackageFile(path: "Package.swift", text: manifestText),
      PackageFile(path: "Sources/\(name.text)/Program.swift", text: programText),
      PackageFile(path: "Sources/\(name.text)/TrafficLight.swift", text: machineText),
      PackageFile(path: "Tests/\(name.text)Tests/TrafficLightTests.swift", text: testText),
      PackageFile(path: topologyPath, text: topologyText),
    ]
  }

  package var topologyPath: String { name.text + ".yaml" }

  private var manifestText: String {
    """
    // swift-tools-version: 6.2
    import PackageDescription

    let package = Package(
      name: "\(name.text)",
      dependencies: [.package(name: "PipeRuntime", path: \(literal(dependency)))],
      targets: [
        .executableTarget(
          name: "\(name.text)",
          dependencies: [.product(name: "PipeRuntime", package: "PipeRuntime")]),
        .testTarget(
          name: "\(name.text)Tests",
          dependencies: [
            "\(name.text)",
            .product(name: "PipeRuntimeTestKit", package: "PipeRuntime"),
            .product(name: "orchestrator", package: "PipeRuntime"),
          ]),
      ]
    )

    """
  }

  private var makefileText: String {
    """
    .PHONY: build test release

    build:
    \tswift build

    test:
    \tswift test

    # The build to deploy: with the Swift runtime linked in, nodes start sooner and take less memory.
    # PipeRuntime's figures for starts and memory were measured with these settings.
    RELEASE_FLAGS := \(Self.releaseFlags.joined(separator: " \\\n  "))
    # Places the code that runs at startup together in the program, which saves memory.
    ORDER := $(wildcard \(dependency)/tools/start.order)
    RELEASE_FLAGS += $(if $(ORDER),-Xlinker --symbol-ordering-file=$(ORDER) -Xlinker --no-warn-symbol-ordering)

    release:
    \tswift build $(RELEASE_FLAGS) --product \(name.text)
    \tswift build $(RELEASE_FLAGS) --product orchestrator

    """
  }

  /// The settings of a release build, as lines of a Makefile.
  package static let releaseFlags = [
    "-c release --static-swift-stdlib --disable-local-rpath -Xswiftc -disable-incremental-imports",
    "-Xswiftc -Xclang-linker -Xswiftc -fuse-ld=lld",
    "-Xlinker -z -Xlinker pack-relative-relocs -Xlinker --no-export-dynamic",
  ]

  private var programText: String {
    """
    import PipeRuntime

    @main struct Program: NodeProgram {
      static let machines: [any Machine.Type] = [TrafficLight.self]
    }

    """
  }

  private var machineText: String {
    """
    import PipeRuntime

    enum TrafficLight: Machine {
      enum State: MachineState { case red, green(cars: Int) }
      enum Event: MachineEvent { case timeIsUp, carPassed }
      enum Output: MachineOutput { case wait }

      static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Output> {
        StateMachine(initial: State.red) {
          When(state: State.red) { Execute(output: Output.wait) } transitions: {
            On(event: Event.timeIsUp) { Transition(to: State.green(cars: 0)) }
          }
          When(state: State.green(cars:)) { _ in Execute(output: Output.wait) } transitions: { cars in
            On(event: Event.timeIsUp) { Transition(to: State.red) }
            On(event: Event.carPassed) { Transition(to: State.green(cars: cars + 1)) }
          }
        }
      }

      static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Output> {
        Runtime().map(
          output: Output.wait,
          to: {
            try? await EffectClock.sleep(for: .seconds(1))
            return Event.timeIsUp
          },
          strategy: .cancelWhenAnyState)
      }
    }

    """
  }

  private var topologyText: String {
    """
    topology: \(name.text)
    program: .build/debug/\(name.text)
    nodes:
      light: { machine: TrafficLight }

    """
  }

  private var testText: String {
    """
    import PipeRuntimeTestKit
    import Testing

    @Test("the light turns green, and red again")
    func light() async throws {
      try await withTopology("\(topologyPath)") { topology in
        try await topology.expect("light", inOrder: ["red", "green", "red"], within: .seconds(60))
      }
    }

    """
  }

  /// Returns a Swift string literal.
  private func literal(_ text: String) -> String {
    let characters = text.unicodeScalars.map { scalar in
      switch scalar {
      case "\\", "\"": "\\\(scalar)"
      case ..<" ", "\u{7f}": "\\u{\(String(scalar.value, radix: 16))}"
      default: String(scalar)
      }
    }
    return "\"" + characters.joined() + "\""
  }
}

/// Writes the folder of a new package: the complete folder, or nothing.
package struct PackageFolder: Sendable {
  /// The folder's path; its parent directory exists.
  package let path: String
  private var parent: String { FileSystem.parentDirectory(of: path) }

  package init(path: String) { self.path = path }

  /// Writes the files to a temporary folder next to the target folder, and then renames the
  /// temporary folder. The rename fails if the target exists and is not an empty folder.
  package func write(_ files: [PackageFile]) throws(InitError) {
    if FileSystem.isDirectory(path), !FileSystem.entryNames(of: path).isEmpty {
      throw .notEmpty(path)
    }
    let temporaryFolder = try makeTemporaryFolder()
    defer { FileSystem.removeTree(temporaryFolder) }
    let folder = temporaryFolder + "/package"
    do {
      for file in files { try write(file, in: folder) }
    } catch {
      throw .unwritable(path, error)
    }
    guard rename(folder, path) != 0 else { return }
    switch errno {
    case ENOTEMPTY, EEXIST: throw .notEmpty(path)
    case ENOTDIR: throw .notADirectory(path)
    case let code: throw .unwritable(path, SystemError("rename", on: path, code: code))
    }
  }

  /// Creates a hidden folder that only this process uses. The folder is next to the target folder,
  /// so that it can be renamed to the target: a rename must stay within one file system.
  private func makeTemporaryFolder() throws(InitError) -> String {
    do {
      return try FileSystem.makeTemporaryDirectory(parent + "/.init-")
    } catch {
      throw .unwritable(path, SystemError("mkdir", on: parent, code: error.code))
    }
  }

  private func write(_ file: PackageFile, in folder: String) throws(SystemError) {
    let path = folder + "/" + file.path
    do {
      try FileSystem.makeDirectories(FileSystem.parentDirectory(of: path), mode: 0o777)
    } catch let error as SystemError {
      throw error
    } catch {
      throw SystemError("mkdir", on: path, code: EIO)
    }
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    do {
      try FileSystem.write(file.text.utf8, to: descriptor, path: path)
    } catch {
      close(descriptor)
      throw error
    }
    // Some file systems report a full disk only when the file is closed.
    guard close(descriptor) == 0 else { throw SystemError("close", on: path, code: errno) }
  }
}
