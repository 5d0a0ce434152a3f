import Glibc
import PipeRuntime
import PipeSupervision
import Synchronization

/// A child process of the test, with its output and its exit.
package final class LaunchedProgram: Sendable {
  package let pid: Int32
  private let path: String
  private let child: Mutex<ChildProcess>
  private let input: Mutex<Int32>
  private let output: Int32
  private let error: Int32
  /// The test directory of the program. While any process of this directory makes progress, waits
  /// for the program continue.
  private let testDirectory: TestDirectory?

  /// Starts a program. Its standard input is a pipe whose write end only this process holds.
  package init(
    _ path: String, _ arguments: [String] = [], environment: [String: String],
    directory: String? = nil
  ) throws {
    self.path = path
    testDirectory = TestDirectory(environment: environment)
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw SystemError("pipe", code: errno) }
    // Children that this library starts do not inherit these descriptors. The flag is for children
    // that other code starts.
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[0]) }
    // Unlike a pipe, an unlinked file needs no reader. The file disappears when its last descriptor
    // is closed.
    output = try Self.file()
    error = try Self.file()
    do {
      // No death signal: the kernel would send it when the pool thread that runs this code ends.
      let child = try ChildProcess.spawn(
        ChildCommand(
          path: path, arguments: arguments, environment: environment, directory: directory,
          input: ends[0], output: .descriptors(output: output, error: error), deathSignal: nil))
      pid = child.pid
      self.child = Mutex(child)
      input = Mutex(ends[1])
    } catch {
      close(ends[1])
      close(output)
      close(self.error)
      throw error
    }
  }

  /// Kills the child if no caller has waited for it. The child must not keep running. It must not
  /// become a zombie either, because zombies delay waits for other children of this process.
  deinit {
    closeInput()
    child.withLock { child in
      guard child.reap() == nil else { return }
      child.signal(.kill)
      child.wait()
    }
    close(output)
    close(error)
  }

  private static func file() throws -> Int32 {
    var path = Array("/tmp/prt-XXXXXX".utf8CString)
    let descriptor = mkstemp(&path)
    guard descriptor >= 0 else { throw SystemError("mkstemp", on: "/tmp", code: errno) }
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    unlink(path)
    return descriptor
  }

  /// The text that the program has written to standard output so far.
  package var outputText: String { Self.text(of: output) }
  /// The text that the program has written to standard error so far.
  package var errorText: String { Self.text(of: error) }

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
    input.withLock { descriptor in
      if descriptor >= 0 { close(descriptor) }
      descriptor = -1
    }
  }

  /// Sends a signal. Returns whether the process still existed.
  @discardableResult
  package func signal(_ signal: Signal) -> Bool { child.withLock { $0.signal(signal) } }

  /// The exit of the process, or `nil` while it runs.
  package var exit: ProcessExit? { child.withLock { $0.reap() } }

  /// Waits for the process to exit. Returns `nil` if there is no progress for `limit`.
  package func waitForExit(within limit: Duration) async throws -> ProcessExit? {
    try await poll(within: limit, of: testDirectory) { exit }
  }

  /// Waits for the process to exit, or until there is no progress for `limit`.
  func waitForEnd(within limit: Duration) async throws -> WaitResult<ProcessExit> {
    try await ask(within: limit, of: testDirectory) { exit }
  }

  /// Waits until the program has written the text to standard output or standard error.
  /// - Returns: Whether the text appeared before the program stalled.
  package func waitForOutput(
    containing text: String, within limit: Duration = .seconds(10)
  ) async throws -> Bool {
    try await poll(within: limit, of: testDirectory) {
      outputText.contains(text) || errorText.contains(text) ? true : nil
    } ?? false
  }
}

/// Limits the number of topologies that run at the same time. A test framework starts all its tests
/// together, and hundreds of processes on a few cores would only wait for processor time.
package final class LaunchLimit: Sendable {
  private struct State {
    var freeCount: Int
    var waitingContinuations: [CheckedContinuation<Void, Never>] = []
  }

  private let state: Mutex<State>

  /// The limit for all topologies of this process: one for each core, and two on a single core.
  package static let shared = LaunchLimit(max(2, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))))

  /// Whether the task runs inside ``run(isolation:_:)``. A topology inside another topology must
  /// not wait for the end of the outer topology.
  @TaskLocal private static var isInside = false

  init(_ count: Int) { state = Mutex(State(freeCount: count)) }

  /// Runs the body as soon as fewer topologies run than the limit allows.
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
