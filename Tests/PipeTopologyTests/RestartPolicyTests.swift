import PipeSupport
import PipeTopology
import PipeWire
import Testing

@Suite("Restart policies")
struct RestartPolicyTests {
  @Test("A coordinator is restarted even if its participants' restart policy is 'never'")
  func coordinators() {
    let patient = RestartPolicy(.always, maximumRestarts: 20, window: .seconds(30))
    #expect(RestartPolicy.forCoordinator(of: []) == RestartPolicy())
    #expect(
      RestartPolicy.forCoordinator(of: [RestartPolicy(.never, maximumRestarts: 100)])
        == RestartPolicy())
    #expect(
      RestartPolicy.forCoordinator(of: [RestartPolicy(maximumRestarts: 0)]) == RestartPolicy())
    #expect(
      RestartPolicy.forCoordinator(of: [
        RestartPolicy(.never, maximumRestarts: 100), patient, RestartPolicy(),
      ])
        == patient)
  }

  @Test(
    "A restart limit is unreachable if the back-offs before the limit exceed the window",
    arguments: [
      (RestartPolicy(), true), (RestartPolicy(maximumRestarts: 0, window: .milliseconds(1)), true),
      (RestartPolicy(.never, window: .milliseconds(1)), true),
      // Backoffs of 100, 200 and 400 ms, and the starts of three processes.
      (
        RestartPolicy(
          maximumRestarts: 3, window: .seconds(1),
          backoff: Backoff(initial: .milliseconds(100), jitter: 0)),
        false
      ),
      (
        RestartPolicy(
          maximumRestarts: 3, window: .seconds(2),
          backoff: Backoff(initial: .milliseconds(100), jitter: 0)),
        true
      ),
      (RestartPolicy(maximumRestarts: 1_000_000, window: .seconds(60)), false),
      (
        RestartPolicy(
          maximumRestarts: 10, backoff: Backoff(initial: .seconds(5), max: .seconds(10))), false
      ),
    ])
  func reach(policy: RestartPolicy, canBeReached: Bool) {
    #expect((policy.minimumTimeToFailure != nil) == canBeReached)
  }

  @Test("An unreachable restart limit causes a warning at 'restart'")
  func warning() throws {
    let text = withNodes(
      "a: { machine: M, restart: { max: 3, window: 1s, backoff: { initial: 1s } } }")
    let found = try TopologyReader.examine(
      text: Array(text.utf8), file: "test.yaml", variables: .init([:])
    ).diagnostics
    #expect(found.map(\.code) == [.unreachableLimit])
    #expect(found.map(\.line) == [4])
  }
}
