import Glibc
import PipeRuntime
import Synchronization

/// A directory of one test's, which is removed with it, also when the test process crashes.
package struct TestDirectory: Sendable {
  /// Short, since the sockets below it must fit into 107 bytes.
  package let path: String

  package init() throws {
    path = try FileSystem.makeTemporaryDirectory("/tmp/prt-")
    Self.inUse.withLock { _ = $0.insert(path) }
  }

  /// Those of all tests that run in this process now.
  private static let inUse = Mutex<Set<String>>([])

  /// One that another test made.
  package init(existing path: String) { self.path = path }

  /// The one whose programs have this environment.
  init?(environment: [String: String]) {
    guard let path = environment[Self.variable] else { return nil }
    self.path = path
  }

  /// Where a topology that is run in this directory has its sockets and its state.
  package var roots: RuntimeRoots { RuntimeRoots(environment: [Self.variable: path]) }

  /// The environment of programs that run in this directory.
  package func environment(adding own: [String: String] = [:], path search: [String] = [])
    -> [String: String]
  {
    var environment = ProcessEnvironment.current.merging(own) { _, own in own }
    environment[Self.variable] = path
    environment["NO_COLOR"] = "1"
    let known = environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
    environment["PATH"] = (search + [known]).joined(separator: ":")
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

  /// Removes the directory once this process has ended and the other one has too.
  /// - Returns: The process that does; end its input where its work is done already.
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

  /// Kills what was started for the directory once this process has ended, and removes it: for what goes
  /// on without this process.
  /// - Returns: The process that does; it ends when nobody holds it any more.
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

  /// The sockets, locks and records of topologies that run in this directory, or have been killed.
  package var sockets: [String] {
    FileSystem.entries(of: roots.runtime).flatMap { name -> [String] in
      let directory = roots.runtime + "/" + name
      let entries = FileSystem.entries(of: directory)
      return entries.isEmpty ? [directory] : entries.map { directory + "/" + $0 }
    }
  }

  /// The processes that were started for this directory, as their environment tells.
  package var processes: [LeftProcess] {
    processIDs.compactMap { pid in
      let arguments = FileSystem.contents(of: "/proc/\(pid)/cmdline") ?? []
      let words = arguments.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      // It has ended meanwhile.
      if words.isEmpty { return nil }
      return LeftProcess(pid: pid, command: words.joined(separator: " "))
    }
  }

  /// The numbers of these processes.
  var processIDs: [Int32] { Self.processIDs(of: [path]) }

  /// The numbers of the processes that were started for any directory of this process's tests.
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

/// A process that outlived what started it.
package struct LeftProcess: Hashable, Sendable, CustomStringConvertible {
  package var pid: Int32
  package var command: String

  package var description: String { "process \(pid): \(command)" }

  package func kill() { _ = Glibc.kill(pid, SIGKILL) }
}
