import PipeMachines
import Testing

@Suite("What is read of types by hand")
struct MetadataCanaryTests {
  @Test("reads the types of its own as they are")
  func own() {
    #expect(MetadataCanary.problem() == nil)
    #expect(MetadataCanary.readings().count > 10)
  }

  @Test(
    "says what is read wrongly, by which compiler, and what to do",
    arguments: MetadataCanary.readings().map(\.what))
  func wrong(what: String) throws {
    let readings = MetadataCanary.readings().map {
      $0.what == what ? MetadataCanary.Reading(what, "0", $0.expected) : $0
    }
    let problem = try #require(MetadataCanary.problem(readings))
    #expect(problem.contains("(\(what): 0 instead of "))
    #expect(problem.contains("Swift 6.3"))
    #expect(problem.contains("Build it with"))
  }

  @Test("ends the process where types cannot be read")
  func ends() async {
    let result = await #expect(
      processExitsWith: .exitCode(70), observing: [\.standardErrorContent]
    ) {
      MetadataCanary.check([MetadataCanary.Reading("tags", "1 0", "0 1")])
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.hasPrefix("piperuntime: error: this program was built by "))
  }
}
