import Glibc
import PipeClient
import PipeSupport
import PipeTopology

/// The topology of a file, which is started for a view, and stopped behind it.
struct ViewedTopology {
  /// Its name.
  let name: String
  private let file: String
  private let wasRunning: Bool

  /// Why it cannot be looked at.
  struct Problem: Error, CustomStringConvertible {
    var description: String
    var code: Int32
  }

  /// Starts it and waits for its nodes, unless it runs.
  init(file: String) throws {
    let name = try TopologyReader.read(path: file).topology.name
    self.name = name
    self.file = file
    wasRunning = RunningTopology.find(try RuntimeDirectories(topology: name)) != nil
    if wasRunning { return }
    let code = try Self.orchestrate("up", "--wait", file)
    guard code == 0 else {
      throw Problem(description: "topology '\(name)' of '\(file)' was not started", code: code)
    }
  }

  /// Stops it, unless it ran before.
  func close() throws {
    guard !wasRunning, let directories = try? RuntimeDirectories(topology: name),
      RunningTopology.find(directories) != nil
    else { return }
    let code = try Self.orchestrate("down", "-p", name)
    guard code == 0 else {
      throw Problem(description: "topology '\(name)' was not stopped in order", code: code)
    }
  }

  /// Runs the orchestrator beside this program, or else the one in `PATH`, and returns its exit code.
  private static func orchestrate(_ words: String...) throws -> Int32 {
    let beside = OwnProcess.executablePath.map { FileSystem.directory(of: $0) + "/orchestrator" }
    let program = beside.flatMap { access($0, X_OK) == 0 ? $0 : nil } ?? "orchestrator"
    var arguments = ([program] + words).map { strdup($0) }
    defer { for argument in arguments { free(argument) } }
    arguments.append(nil)
    // What it tells is not what the view prints.
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO)
    var pid: pid_t = 0
    let problem = posix_spawnp(&pid, program, &actions, nil, arguments, environ)
    guard problem == 0 else {
      throw Problem(
        description: "'\(program)' could not be run: \(String(cString: strerror(problem))). "
          + "Put the orchestrator beside this program, or in the PATH", code: 1)
    }
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    return status & 0x7F == 0 ? status >> 8 & 0xFF : 1
  }
}
