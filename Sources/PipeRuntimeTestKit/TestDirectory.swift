import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision
import Synchronization

/// The directory of one test. It is removed with the test, even if the test process crashes.
package struct TestDirectory: Sendable {
  /// The path, which is short because the paths of sockets in the directory must fit into 107
  /// bytes.
  package let path: String

  package init() throws {
    path = try FileSystem.makeTemporaryDirectory("/tmp/prt-")
    Self.inUse.withLock { _ = $0.insert(path) }
  }

  /// The directories of all tests that run in this process now.
  private static let inUse = Mutex<Set<String>>([])

  /// Creates a reference to a directory that another test made.
  package init(existing path: String) { self.path = path }

  /// Creates a reference to the test directory that an environment names; `nil` if it names none.
  init?(environment: [String: String]) {
    guard let path = environment[Self.variable] else { return nil }
    self.path = path
  }

  /// The runtime roots of topologies that run in this directory.
  package var roots: RuntimeRoots { RuntimeRoots(environment: [Self.variable: path]) }

  /// The environment of programs that run in this directory.
  package func environment(adding own: [String: String] = [:], path search: [String] = [])
    -> [String: String]
  {
    var environment = ProcessEnvironment.current.merging(own) { _, own in own }
    environment[Self.variable] = path
    environment["NO_COLOR"] = "1"
    let inheritedPath = environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
    environment["PATH"] = (search + [inheritedPath]).joined(separator: ":")
    return environment
  }

  private static let variable = "PIPERUNTIME_ROOT"

  /// Writes a file. Returns its path.
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

  /// Starts a helper that removes the directory after this process and the process `pid` have
  /// ended.
  /// - Returns: The helper process. Close its input if its work is done already.
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

  /// Starts a helper that kills all processes of the directory and removes the directory after this
  /// process has ended. The helper is for processes that outlive this process.
  /// - Returns: The helper process. It ends when its ``LaunchedProgram`` is released.
  package func killAfterCrash() throws -> LaunchedProgram {
    let script = """
      cat > /dev/null
      for process in /proc/[0-9]*; do
        if grep -qsz "^$1=$2$" "$process/environ"; then kill -9 "${process#/proc/}"; fi
      done
      rm -rf -- "$2"
      """
    return try LaunchedProgram(
      "/bin/sh", ["-c", script, "sh", Self.variable, path],
      environment: ["PATH": "/usr/bin:/bin"])
  }

  package func remove() {
    FileSystem.removeTree(path)
    Self.inUse.withLock { _ = $0.remove(path) }
  }

  // MARK: Leftovers

  /// The sockets, locks and records of topologies that run in this directory, or that were killed
  /// there.
  package var sockets: [String] {
    FileSystem.entries(of: roots.runtime).flatMap { name -> [String] in
      let directory = roots.runtime + "/" + name
      let entries = FileSystem.entries(of: directory)
      return entries.isEmpty ? [directory] : entries.map { directory + "/" + $0 }
    }
  }

  /// The processes that were started for this directory, identified by their environment.
  package var processes: [LeftoverProcess] {
    processIDs.compactMap { pid in
      let arguments = FileSystem.contents(of: "/proc/\(pid)/cmdline") ?? []
      let words = arguments.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      // The process has ended since its id was read.
      if words.isEmpty { return nil }
      return LeftoverProcess(pid: pid, command: words.joined(separator: " "))
    }
  }

  /// The ids of the ``processes``.
  var processIDs: [Int32] { Self.processIDs(of: [path]) }

  /// The ids of the processes that were started for any directory of this process's tests.
  static var allProcessIDs: [Int32] {
    let paths = inUse.withLock(\.self)
    return paths.isEmpty ? [] : processIDs(of: paths)
  }

  private static func processIDs(of paths: some Sequence<String>) -> [Int32] {
    let entries = paths.map { Array("\(variable)=\($0)\0".utf8) }
    return FileSystem.entries(of: "/proc").compactMap { name in
      guard let pid = Int32(name), pid != getpid(),
        let environment = FileSystem.contents(of: "/proc/\(name)/environ").map({ $0 + [0] }),
        entries.contains(where: { environment.contains($0) })
      else { return nil }
      return pid
    }
  }
}

/// A process that outlived its parent.
package struct LeftoverProcess: Hashable, Sendable, CustomStringConvertible {
  package var pid: Int32
  package var command: String

  package var description: String { "process \(pid): \(command)" }

  package func kill() { _ = Glibc.kill(pid, SIGKILL) }
}

extension TestDirectory {
  /// The signals of a crashing program: a trap, an abort, a bad address. No test sends them.
  private static let crashSignals = [
    SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGPIPE,
  ].map { Signal(number: $0) }

  /// Returns the crashes of nodes in this directory, read from the nodes' logs.
  /// - Parameter expected: The nodes that may crash.
  package func crashes(except expected: Set<String> = []) -> [String] {
    let crashSignalsByText = Dictionary(
      uniqueKeysWithValues: Self.crashSignals.map { signal in
        ("\(NodeReport.exited(.signalled(number: signal.number)))", signal)
      })
    return FileSystem.entries(of: roots.state).flatMap { topology -> [String] in
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

/// Finds the `orchestrator` with which a test launches topologies.
package enum BinaryLocator {
  /// Returns the path of an executable: the executable that the variable names, or the executable
  /// beside the test's build products, or the executable in `PATH`.
  /// - Parameter variable: An environment variable that names the executable.
  package static func find(
    _ name: String, variable: String? = nil,
    environment: [String: String] = ProcessEnvironment.current
  ) throws -> String {
    if let variable, let path = environment[variable], !path.isEmpty {
      guard isExecutable(path) else { throw BinaryError.notExecutable(path, variable: variable) }
      return FileSystem.absolute(path)
    }
    let search = environment["PATH"]?.split(separator: ":").map(String.init) ?? []
    for directory in productDirectories + search where isExecutable(directory + "/" + name) {
      return directory + "/" + name
    }
    throw BinaryError.missing(name, variable: variable)
  }

  /// The directories where `swift build` may have put its products, from the test program upwards.
  static var productDirectories: [String] {
    var directories: [String] = []
    let own = [OwnProcess.executablePath, CommandLine.arguments.first.map(FileSystem.absolute)]
    for case let start? in own + [FileSystem.absolute("x")] {
      var directory = FileSystem.directory(of: start)
      while true {
        directories += [directory, directory + "/.build/debug", directory + "/.build/release"]
        guard directory != "/" else { break }
        directory = FileSystem.directory(of: directory)
      }
    }
    return directories
  }

  private static func isExecutable(_ path: String) -> Bool {
    access(path, X_OK) == 0 && !FileSystem.isDirectory(path)
  }
}

/// The reasons why a test does not find a program that it needs.
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
