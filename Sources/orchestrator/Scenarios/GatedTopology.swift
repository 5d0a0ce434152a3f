import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision

/// A topology with gated nodes, which runs in a child process for one scenario, with a directory of
/// its own.
///
/// The child stops when this process ends or closes the child's standard input, and then removes
/// the directory.
final class GatedTopology {
  let client: TopologyClient
  private var child: ChildProcess
  private let lifeline: Int32

  /// The time for the start of the topology, and the time for its end.
  private static let startTimeout: Duration = .seconds(60)
  private static let stopTimeout: Duration = .seconds(20)
  private static let pollInterval: Duration = .milliseconds(5)
  private static let rootVariable = "PIPERUNTIME_ROOT"

  /// Runs the command, and then removes the directory, also if this process was killed meanwhile.
  private static let script =
    #"directory=$1; shift; "$@"; code=$?; rm -rf -- "$directory"; exit $code"#

  /// Starts the topology of a file, and waits until its nodes run.
  /// - Throws: ``CommandError`` if the topology does not start.
  init(file: String, topology: String) async throws {
    guard let executable = OwnProcess.executablePath else {
      throw CommandError("cannot determine the path of this executable")
    }
    let directory = try FileSystem.makeTemporaryDirectory("/tmp/prs-")
    let output = directory + "/output"
    var environment = ProcessEnvironment.current
    environment[Self.rootVariable] = directory
    environment[HelperProcesses.markerVariable] = nil
    let control = try RuntimeDirectories(
      topology: topology, roots: RuntimeRoots(environment: environment)
    ).endpoint(.control)
    var ends: [Int32] = [-1, -1]
    let outputDescriptor = open(output, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard outputDescriptor >= 0, pipe(&ends) == 0 else {
      let code = errno
      if outputDescriptor >= 0 { close(outputDescriptor) }
      FileSystem.removeTree(directory)
      throw SystemError("open", on: output, code: code)
    }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer {
      close(ends[0])
      close(outputDescriptor)
    }
    lifeline = ends[1]
    do {
      child = try ChildProcess.spawn(
        ChildCommand(
          path: "/bin/sh",
          arguments: [
            "-c", Self.script, "sh", directory, executable, "run", "--plain", "--gated",
            "--lifeline", file,
          ],
          environment: environment, input: ends[0], output: .descriptor(outputDescriptor),
          deathSignal: nil, leadsSession: true))
    } catch {
      close(lifeline)
      FileSystem.removeTree(directory)
      throw error
    }
    do {
      client = try await Self.attach(to: topology, at: control, &child, outputDescriptor)
    } catch {
      Self.end(&child, lifeline, directory)
      throw error
    }
    self.directory = directory
  }

  private let directory: String

  private static func attach(
    to topology: String, at control: String, _ child: inout ChildProcess, _ output: Int32
  ) async throws -> TopologyClient {
    let deadline = ContinuousClock.now + startTimeout
    func failure(_ problem: String) -> CommandError {
      var bytes = [UInt8](repeating: 0, count: 65_536)
      let count = bytes.withUnsafeMutableBytes { pread(output, $0.baseAddress, $0.count, 0) }
      let text = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
      return CommandError("topology '\(topology)' \(problem)" + (text.isEmpty ? "" : ":\n\(text)"))
    }
    func check() async throws {
      if let exit = child.reap() { throw failure("did not start: \(exit)") }
      guard ContinuousClock.now < deadline else {
        throw failure("is not running after \(startTimeout.shortText)")
      }
      try await Task.sleep(for: pollInterval)
    }
    while !FileSystem.exists(String(control.dropFirst("ipc://".count))) { try await check() }
    let client = try TopologyClient(topology: topology, control: control)
    do {
      while (try? await client.directory(fresh: false))?.isRunning != true { try await check() }
    } catch {
      client.close()
      throw error
    }
    return client
  }

  /// Returns a description of how the orchestrator of the topology has ended; `nil` if it runs.
  func exitOfOrchestrator() async -> String? {
    if (try? await client.directory(fresh: true)) != nil { return nil }
    let exit = Polling.wait(every: Self.pollInterval, until: .now + Self.stopTimeout) {
      child.reap()
    }
    // A shell reports the end by a signal as 128 plus the number of the signal.
    if case .exited(let code)? = exit, code > 128 {
      return "\(ProcessExit.signalled(number: code - 128))"
    }
    return exit.map { "\($0)" } ?? "it does not answer"
  }

  /// Stops the topology, and waits until all its processes have ended.
  func end() {
    client.close()
    Self.end(&child, lifeline, directory)
  }

  private static func end(_ child: inout ChildProcess, _ lifeline: Int32, _ directory: String) {
    close(lifeline)
    let exit = Polling.wait(every: pollInterval, until: .now + stopTimeout) { child.reap() }
    guard exit == nil else { return }
    // The nodes end together with their orchestrator.
    child.signal(.kill, group: true)
    child.wait()
    FileSystem.removeTree(directory)
  }
}
