import PipeRuntime
import Testing

@Suite("Restart policies")
struct RestartPolicyTests {
  @Test("a coordinator is started again, whatever its participants say")
  func coordinators() {
    let patient = RestartPolicy(.always, max: 20, window: .seconds(30))
    #expect(RestartPolicy.ofCoordinator(of: []) == RestartPolicy())
    #expect(RestartPolicy.ofCoordinator(of: [RestartPolicy(.never, max: 100)]) == RestartPolicy())
    #expect(RestartPolicy.ofCoordinator(of: [RestartPolicy(max: 0)]) == RestartPolicy())
    #expect(
      RestartPolicy.ofCoordinator(of: [RestartPolicy(.never, max: 100), patient, RestartPolicy()])
        == patient)
  }
}
