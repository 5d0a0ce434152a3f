import Glibc
import PipeRuntime
import PipeSupervision
import Synchronization

/// A child process of the test, with its output and its exit status.
package final class LaunchedProgram: Sendable {
  package let pid: Int32
  private let path: String
  private let child: Mutex<ChildProcess>
  private let inputDescriptor: Mutex<Int32>
  private let outputDescriptor: Int32
  private let errorDescriptor: Int32
  /// The test directory in which the program runs; `nil` if the program runs in another directory.
  /// A wait for the program continues as long as any process of the test directory makes progress.
  private let testDirectory: TestDirectory?

  /// Starts a program. Its standard input is a pipe whose write end is open only in this process.
  package init(
    _ path: String, _ arguments: [String] = [], environment: [String: String],
    directory: String? = nil
  ) throws {
    self.path = path
    testDirectory = TestDirectory(environment: environment)
    var pipeDescriptors: [Int32] = [-1, -1]
    guard pipe(&pipeDescriptors) == 0 else { throw SystemError("pipe", code: errno) }
    // Without `FD_CLOEXEC`, children that other code in this process starts would inherit these
    // descriptors. Children that this library starts never inherit them.
    for end in pipeDescriptors { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(pipeDescriptors[0]) }
    // The output goes to a file, since a pipe would need a reader. The file is unlinked, so it
    // disappears when its last descriptor is closed.
    outputDescriptor = try Self.openOutputFile()
    errorDescriptor = try Self.openOutputFile()
    do {
      // The child gets no death signal. The kernel would send that signal when the pool thread that
      // runs this code ends.
      let child = try ChildProcess.spawn(
        ChildCommand(
          path: path, arguments: arguments, environment: environment, directory: directory,
          input: pipeDescriptors[0],
          output: .descriptors(output: outputDescriptor, error: errorDescriptor), deathSignal: nil))
      pid = child.pid
      self.child = Mutex(child)
      inputDescriptor = Mutex(pipeDescriptors[1])
    } catch {
      close(pipeDescriptors[1])
      close(outputDescriptor)
      close(self.errorDescriptor)
      throw error
    }
  }

  /// Kills and reaps the child, unless this has already happened. The child must not remain, either
  /// as a running process or as a zombie: zombies delay waits for other children of this process.
  deinit {
    closeInput()
    child.withLock { child in
      guard child.reap() == nil else { return }
      child.signal(.kill)
      child.wait()
    }
    close(outputDescriptor)
    close(errorDescriptor)
  }

  private static func openOutputFile() throws -> Int32 {
    var path = Array("/tmp/prt-XXXXXX".utf8CString)
    let descriptor = mkstemp(&path)
    guard descriptor >= 0 else { throw SystemError("mkstemp", on: "/tmp", code: errno) }
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    unlink(path)
    return descriptor
  }

  /// The text that the program has written to standard output so far.
  package var outputText: String { Self.text(of: outputDescriptor) }
  /// The text that the program has written to standard error so far.
  package var errorText: String { Self.text(of: errorDescriptor) }

  private static func text(of descriptor: Int32) -> String {
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_size > 0 else { return "" }
    let bytes = [UInt8](unsafeUninitializedCapacity: Int(status.st_size)) { buffer, count in
      count = max(0, pread(descriptor, buffer.baseAddress, buffer.count, 0))
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Closes the program's standard input.
  package func closeInput() {
    inputDescriptor.withLock { descriptor in
      if descriptor >= 0 { close(descriptor) }
      descriptor = -1
    }
  }

  /// Sends a signal to the process.
  /// - Returns: Whether the process still exists.
  @discardableResult
  package func signal(_ signal: Signal) -> Bool { child.withLock { $0.signal(signal) } }

  /// The exit of the process; `nil` while the process is running.
  package var exit: ProcessExit? { child.withLock { $0.reap() } }

  /// Waits for the process to exit. Returns `nil` if there is no progress for `limit`.
  package func waitForExit(within limit: Duration) async throws -> ProcessExit? {
    try await poll(within: limit, of: testDirectory) { exit }
  }

  /// Waits for the process to exit. Stops waiting if the process makes no progress for `limit`.
  func waitForEnd(within limit: Duration) async throws -> WaitResult<ProcessExit> {
    try await pollUntilStalled(within: limit, of: testDirectory) { exit }
  }

  /// Waits until the program has written a text to standard output or standard error.
  /// - Returns: Whether the text appeared. `false` if the program makes no progress for `limit`.
  package func waitForOutput(
    containing text: String, within limit: Duration = .seconds(10)
  ) async throws -> Bool {
    try await poll(within: limit, of: testDirectory) {
      outputText.contains(text) || errorText.contains(text) ? true : nil
    } ?? false
  }
}

/// Limits the number of topologies that run at the same time. A test framework starts all its tests
/// together. Without the limit, hundreds of processes would run on a few cores, and most of them
/// would only wait for a processor.
package final class LaunchLimit: Sendable {
  private struct State {
    var freeCount: Int
    var waitingContinuations: [CheckedContinuation<Void, Never>] = []
  }

  private let state: Mutex<State>

  /// The limit for all topologies of this test process: the number of cores, but at least two.
  package static let shared = LaunchLimit(max(2, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))))

  /// Whether this task already runs within ``run(isolation:_:)``. A test may start a second
  /// topology while its first topology runs. The second topology must not wait for the first
  /// topology to end.
  @TaskLocal private static var isInside = false

  init(_ count: Int) { state = Mutex(State(freeCount: count)) }

  /// Runs the body as soon as the number of running topologies is below the limit.
  package func run<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async throws -> Result {
    if Self.isInside { return try await body() }
    await enter()
    defer { leave() }
    try Task.checkCancellation()
    return try await Self.$isInside.withValue(true) { try await body() }
  }

  private func enter() async {
    await withCheckedContinuation { continuation in
      let hasCapacity = state.withLock { state in
        if state.freeCount > 0 {
          state.freeCount -= 1
          return true
        }
        state.waitingContinuations.append(continuation)
        return false
      }
      if hasCapacity { continuation.resume() }
    }
  }

  private func leave() {
    let next = state.withLock { state in
      if state.waitingContinuations.isEmpty {
        state.freeCount += 1
        return nil as CheckedContinuation<Void, Never>?
      }
      return state.waitingContinuations.removeFirst()
    }
    next?.resume()
  }
}
