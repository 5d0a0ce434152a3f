import Glibc
import PipeRuntime

/// Launches the topology in a file for a test, and stops the topology afterwards.
///
/// Each test has its own processes, sockets and logs, so tests can run at the same time. The
/// processes and files are removed at the end, even if the test fails or the test process crashes.
/// If the test target depends on the product `orchestrator`, SwiftPM builds the orchestrator into
/// the directory of the tests, where the harness finds it.
///
/// ```swift
/// try await withTopology("topologies/elevator.yaml") { elevator in
///   try await elevator.send("door", ElevatorDoor.Event.closeButtonWasPressed)
///   try await elevator.expect("display", FloorDisplay.State.refreshed, within: .seconds(5))
/// }
/// ```
/// - Parameters:
///   - file: The path of the file, relative to the working directory or to a directory that
///     contains the test's source.
///   - body: The test.
/// - Throws: ``TopologyExpectationFailure``, with the recorded states and the logs, if an
///   expectation fails, or if the topology does not start, does not stop gracefully, or leaves
///   processes or files behind. Swift Testing reports the failure at the line of the harness call
///   that failed. In other tests, the error contains that line.
@discardableResult
public func withTopology<Result>(
  _ file: String, options: TopologyHarness.Options = TopologyHarness.Options(),
  isolation: isolated (any Actor)? = #isolation, sourceFile: String = #filePath,
  _ body: (TopologyHarness) async throws -> Result
) async throws -> Result {
  let path = locate(file, from: sourceFile)
  let name = try TopologyReader.read(path: path).topology.name
  return try await run(name: name, options: options, body) { _ in path }
}

/// Launches a topology that is given as YAML text, and stops it after the test.
@discardableResult
public func withTopology<Result>(
  yaml text: String, options: TopologyHarness.Options = TopologyHarness.Options(),
  isolation: isolated (any Actor)? = #isolation,
  _ body: (TopologyHarness) async throws -> Result
) async throws -> Result {
  let name = try TopologyReader.read(text: text.utf8, file: "topology.yaml").topology.name
  return try await run(name: name, options: options, body) {
    try $0.write(text, to: "topology.yaml")
  }
}

/// Launches a topology that was created in code, and stops it after the test.
@discardableResult
public func withTopology<Result>(
  _ topology: Topology, options: TopologyHarness.Options = TopologyHarness.Options(),
  isolation: isolated (any Actor)? = #isolation,
  _ body: (TopologyHarness) async throws -> Result
) async throws -> Result {
  try await withTopology(yaml: topology.yaml, options: options, body)
}

private func run<Result>(
  name: String, options: TopologyHarness.Options,
  isolation: isolated (any Actor)? = #isolation,
  _ body: (TopologyHarness) async throws -> Result,
  file: (TestDirectory) throws -> String
) async throws -> Result {
  let binary =
    try options.orchestrator
    ?? BinaryLocator.find("orchestrator", variable: "PIPERUNTIME_ORCHESTRATOR")
  return try await LaunchLimit.shared.run {
    try await run(name: name, binary: binary, options: options, body, file: file)
  }
}

private func run<Result>(
  name: String, binary: String, options: TopologyHarness.Options,
  isolation: isolated (any Actor)? = #isolation,
  _ body: (TopologyHarness) async throws -> Result,
  file: (TestDirectory) throws -> String
) async throws -> Result {
  let directory = try TestDirectory()
  let harness: TopologyHarness
  do {
    harness = try await TopologyHarness(
      file: file(directory), name: name, directory: directory, binary: binary, options: options)
  } catch {
    directory.remove()
    throw error
  }
  let result: Result
  do {
    result = try await body(harness)
  } catch {
    throw await harness.end(after: error)
  }
  if let failure = await harness.end() { throw failure }
  return result
}

extension TopologyHarness {
  /// Stops the topology after the test's body has returned. Returns a failure if there were
  /// problems.
  fileprivate func end() async -> TopologyExpectationFailure? {
    let report = await report()
    let problems = await stop()
    guard !problems.isEmpty else { return nil }
    return TopologyExpectationFailure(
      expectation: problems.joined(separator: "\n"), recordedStates: [],
      report: report + "\n" + Self.report(of: orchestrator))
  }

  /// Stops the topology after the test's body has thrown an error. Returns the error to throw:
  /// `error`, with a report and the problems that the harness has found.
  fileprivate func end(after error: any Error) async -> any Error {
    let callSite = callSite(of: error)
    var failure: TopologyExpectationFailure
    switch error {
    case let error as TopologyExpectationFailure: failure = error
    case is CancellationError:
      _ = await stop()
      return error
    default:
      failure = await self.failure("the body of the test threw an error: \(error)")
      failure.cause = error
    }
    let problems = await stop()
    if !problems.isEmpty {
      failure.report += "\nwhen the topology was stopped: " + problems.joined(separator: "\n")
    }
    return FailureReporter.end(with: failure, at: callSite)
  }
}

/// Returns `file` if this path is absolute or exists. Otherwise, searches for the file in the
/// directory of the source file and in the directories above.
private func locate(_ file: String, from sourceFile: String) -> String {
  if file.hasPrefix("/") || FileSystem.exists(file) { return file }
  var directory = FileSystem.parentDirectory(of: sourceFile)
  while directory != "/", directory != "." {
    if FileSystem.exists(directory + "/" + file) { return directory + "/" + file }
    directory = FileSystem.parentDirectory(of: directory)
  }
  return file
}
