import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision
import Synchronization

/// The directory of a test. The directory is removed after the test, even if the test process
/// crashes.
package struct TestDirectory: Sendable {
  /// The path of the directory. The path is short, because paths of sockets in the directory must
  /// not exceed 107 bytes.
  package let path: String

  package init() throws {
    path = try FileSystem.makeTemporaryDirectory("/tmp/prt-")
    Self.pathsInUse.withLock { _ = $0.insert(path) }
  }

  /// The directories of all tests that are running in this process.
  private static let pathsInUse = Mutex<Set<String>>([])

  /// Creates a reference to an existing directory, which another test has created.
  package init(existing path: String) { self.path = path }

  /// Creates a reference to the test directory that an environment variable names; `nil` if the
  /// variable is not set.
  init?(environment: [String: String]) {
    guard let path = environment[Self.rootVariable] else { return nil }
    self.path = path
  }

  /// The runtime roots that topologies of this directory use.
  package var roots: RuntimeRoots { RuntimeRoots(environment: [Self.rootVariable: path]) }

  /// Returns the environment for programs that run in this directory.
  /// - Parameters:
  ///   - own: Variables to add. They replace inherited variables with the same names.
  ///   - search: Directories to add to the front of `PATH`.
  package func environment(adding own: [String: String] = [:], path search: [String] = [])
    -> [String: String]
  {
    var environment = ProcessEnvironment.current.merging(own) { _, own in own }
    environment[Self.rootVariable] = path
    environment["NO_COLOR"] = "1"
    let inheritedPath = environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
    environment["PATH"] = (search + [inheritedPath]).joined(separator: ":")
    return environment
  }

  private static let rootVariable = "PIPERUNTIME_ROOT"

  /// Writes a file, and returns its path.
  @discardableResult
  package func write(_ text: String, to name: String, mode: mode_t = 0o600) throws -> String {
    let file = path + "/" + name
    let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw SystemError("open", on: file, code: errno) }
    defer { close(descriptor) }
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { throw SystemError("write", on: file, code: errno) }
      rest = rest.dropFirst(count)
    }
    fchmod(descriptor, mode)
    return file
  }

  /// Starts a helper process that removes the directory after this process and the process `pid`
  /// have ended.
  /// - Returns: The helper process. To end it earlier, close its standard input.
  package func removeAfterCrash(and pid: Int32) throws -> LaunchedProgram {
    let script = """
      cat > /dev/null
      for round in $(seq 600); do kill -0 "$1" 2> /dev/null || break; sleep 0.1; done
      rm -rf -- "$2"
      """
    return try LaunchedProgram(
      "/bin/sh", ["-c", script, "sh", String(pid), path],
      environment: ["PATH": "/usr/bin:/bin"])
  }

  /// Starts a helper process that waits until this process has ended. Then the helper kills the
  /// processes of the directory that are still running, and removes the directory.
  /// - Returns: The helper process. It ends when the ``LaunchedProgram`` is released.
  package func killAfterCrash() throws -> LaunchedProgram {
    let script = """
      cat > /dev/null
      for process in /proc/[0-9]*; do
        if grep -qsz "^$1=$2$" "$process/environ"; then kill -9 "${process#/proc/}"; fi
      done
      rm -rf -- "$2"
      """
    return try LaunchedProgram(
      "/bin/sh", ["-c", script, "sh", Self.rootVariable, path],
      environment: ["PATH": "/usr/bin:/bin"])
  }

  package func remove() {
    FileSystem.removeTree(path)
    Self.pathsInUse.withLock { _ = $0.remove(path) }
  }

  // MARK: Leftover files and processes

  /// The paths of the sockets, locks and records in this directory. Each belongs to a topology that
  /// is running or was killed.
  package var leftoverPaths: [String] {
    FileSystem.entryNames(of: roots.runtime).flatMap { name -> [String] in
      let directory = roots.runtime + "/" + name
      let entries = FileSystem.entryNames(of: directory)
      return entries.isEmpty ? [directory] : entries.map { directory + "/" + $0 }
    }
  }

  /// The running processes that were started for this directory. Their environment contains the
  /// directory's path.
  package var processes: [LeftoverProcess] {
    processIDs.compactMap { pid in
      let arguments = FileSystem.contents(of: "/proc/\(pid)/cmdline") ?? []
      let words = arguments.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      // The process has ended after its id was read.
      if words.isEmpty { return nil }
      return LeftoverProcess(pid: pid, command: words.joined(separator: " "))
    }
  }

  /// The process ids of the ``processes``.
  var processIDs: [Int32] { Self.processIDs(of: [path]) }

  /// The ids of the processes that were started for any test directory of this process.
  static var allProcessIDs: [Int32] {
    let paths = pathsInUse.withLock(\.self)
    return paths.isEmpty ? [] : processIDs(of: paths)
  }

  private static func processIDs(of paths: some Sequence<String>) -> [Int32] {
    ProcessEnvironment.processes(withAnyOf: Set(paths.map { "\(rootVariable)=\($0)" }))
  }
}

/// A process that is still running after its parent has ended.
package struct LeftoverProcess: Hashable, Sendable, CustomStringConvertible {
  package var pid: Int32
  package var command: String

  package var description: String { "process \(pid): \(command)" }

  package func kill() { _ = Glibc.kill(pid, SIGKILL) }
}

extension TestDirectory {
  /// The signals that show that a program has crashed, for example because of a trap, an abort or
  /// an invalid address. Tests do not send these signals themselves.
  private static let crashSignals = [
    SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGPIPE,
  ].map { Signal(number: $0) }

  /// Returns a description of each crash of a node in this directory, according to the nodes' logs.
  /// - Parameter expected: The nodes that may crash.
  package func crashes(except expected: Set<String> = []) -> [String] {
    let crashSignalsByText = Dictionary(
      uniqueKeysWithValues: Self.crashSignals.map { signal in
        ("\(NodeReport.exited(.signalled(number: signal.number)))", signal)
      })
    return FileSystem.entryNames(of: roots.state).flatMap { topology -> [String] in
      guard let directories = try? RuntimeDirectories(topology: topology, roots: roots) else {
        return []
      }
      var logs = LogReader(directory: directories.logs)
      return logs.next().compactMap { entry in
        guard entry.stream == .note, !expected.contains(entry.node) else { return nil }
        return crashSignalsByText[entry.text].map {
          "node '\(entry.node)' of '\(topology)' crashed: \($0)"
        }
      }
    }
  }
}

/// Finds executables for tests, such as the `orchestrator` command that launches topologies.
package enum BinaryLocator {
  /// Returns the path of an executable. Searches the environment variable `variable`, then the
  /// directories of the test's build products, and then the directories in `PATH`.
  /// - Parameter variable: The name of an environment variable that may contain the path of the
  ///   executable.
  package static func find(
    _ name: String, variable: String? = nil,
    environment: [String: String] = ProcessEnvironment.current
  ) throws -> String {
    if let variable, let path = environment[variable], !path.isEmpty {
      guard isExecutable(path) else { throw BinaryError.notExecutable(path, variable: variable) }
      return FileSystem.absolutePath(path)
    }
    let search = environment["PATH"]?.split(separator: ":").map(String.init) ?? []
    for directory in productDirectories + search where isExecutable(directory + "/" + name) {
      return directory + "/" + name
    }
    throw BinaryError.missing(name, variable: variable)
  }

  /// The directories that may contain the products of `swift build`. These are the directories of
  /// the test program and of the working directory, the directories above them, and the build
  /// directories in each of them.
  static var productDirectories: [String] {
    var directories: [String] = []
    let own = [OwnProcess.executablePath, CommandLine.arguments.first.map(FileSystem.absolutePath)]
    for case let start? in own + [FileSystem.absolutePath("x")] {
      var directory = FileSystem.parentDirectory(of: start)
      while true {
        directories += [directory, directory + "/.build/debug", directory + "/.build/release"]
        guard directory != "/" else { break }
        directory = FileSystem.parentDirectory(of: directory)
      }
    }
    return directories
  }

  private static func isExecutable(_ path: String) -> Bool {
    access(path, X_OK) == 0 && !FileSystem.isDirectory(path)
  }
}

/// The reason why a test cannot use an executable.
package enum BinaryError: Error, Hashable, CustomStringConvertible {
  case missing(String, variable: String?)
  case notExecutable(String, variable: String)

  package var description: String {
    switch self {
    case .missing(let name, let variable):
      "no such program '\(name)' beside the test's build products or in PATH; build the program"
        + (variable.map { ", or set its path in the environment variable \($0)" } ?? "")
    case .notExecutable(let path, let variable):
      "'\(path)', from the environment variable \(variable), is not an executable file"
    }
  }
}
