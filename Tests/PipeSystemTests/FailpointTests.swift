import PipeSystem
import Testing

@Suite("Failpoints")
struct FailpointTests {
  @Test(
    "A failpoint rule is read with its action, hit or probability, node and incarnation",
    arguments: [
      ("record.after=crash", FailpointRule(.recordAfter, .crash)),
      ("step.before=exit@3", FailpointRule(.stepBefore, .exit, .hit(3))),
      ("send.after=stop%0.01", FailpointRule(.sendAfter, .stop, .probability(0.01))),
      ("open.after=cut%1", FailpointRule(.openAfter, .cut, .probability(1))),
      ("yes.after=cut@2", FailpointRule(.yesAfter, .cut, .hit(2))),
      ("drain.before=delay:20ms", FailpointRule(.drainBefore, .delay(.milliseconds(20)))),
      ("record.error=error@2/1", FailpointRule(.recordError, .error, .hit(2), incarnation: 1)),
      (
        "door:ack.after=delay:1s5ms%0.5/12",
        FailpointRule(
          .ackAfter, .delay(.milliseconds(1005)), .probability(0.5), node: "door", incarnation: 12)
      ),
    ])
  func rule(text: String, expected: FailpointRule) throws {
    #expect(try FailpointRule(parsing: text) == expected)
  }

  @Test(
    "A malformed failpoint rule causes an error that says what is wrong",
    arguments: [
      ("record.after", "missing action; write, for example, 'record.after=crash'"),
      ("record.after=", "unknown action ''"),
      ("recod.after=crash", "unknown failpoint 'recod.after'; the failpoints are step.before, "),
      ("record.after=burn", "unknown action 'burn'; the actions are crash, "),
      ("record.after=delay", "unknown action 'delay'"),
      ("record.after=delay:20", "unknown action 'delay:20'"),
      ("record.after=crash@0", "invalid hit number '0': must be an integer of at least 1"),
      ("record.after=crash@-1", "invalid hit number '-1'"),
      ("record.after=crash@", "invalid hit number ''"),
      ("record.after=crash%0", "invalid probability '0': must be greater than 0 and at most 1"),
      ("record.after=crash%1.5", "invalid probability '1.5'"),
      ("record.after=crash%nan", "invalid probability 'nan'"),
      ("record.after=crash/x", "invalid incarnation 'x'"),
      (":record.after=crash", "missing node name before ':'"),
      ("record.after=cut", "action 'cut' is not possible at failpoint 'record.after'"),
      ("record.after=error", "action 'error' is not possible at failpoint 'record.after'"),
      ("record.error=crash", "action 'crash' is not possible at failpoint 'record.error'"),
    ])
  func malformed(text: String, problem: String) throws {
    let error = try #require(throws: FailpointError.self) { try FailpointRule(parsing: text) }
    #expect(error.problem.hasPrefix(problem))
    #expect("\(error)".hasPrefix("PIPERUNTIME_FAILPOINTS: '\(text)': "))
  }

  @Test("Failpoint rules are separated by commas, and an empty rule causes an error")
  func list() throws {
    #expect(
      try FailpointRule.parse(list: "step.before=crash@1, door:send.after=cut")
        == [
          FailpointRule(.stepBefore, .crash, .hit(1)),
          FailpointRule(.sendAfter, .cut, node: "door"),
        ])
    for text in ["", ",", "step.before=crash,", "step.before=crash, ,send.after=cut"] {
      #expect(throws: FailpointError.self) { try FailpointRule.parse(list: text) }
    }
  }

  @Test("The failpoints have exactly the documented names")
  func names() {
    #expect(
      Failpoint.allCases.map(\.rawValue) == [
        "step.before", "step.after", "record.after", "record.error", "write.before", "write.after",
        "effect.before",
        "effect.after", "ack.after", "send.before", "send.after", "open.after", "welcome.after",
        "reply.before", "reply.after", "start.after", "restore.after", "trim.after",
        "dead-letter.after", "drain.before", "shards.routed", "shards.copied", "shards.trimmed",
        "shards.removed", "program.copied",
        "upgrade.recorded", "upgrade.copied", "upgrade.switched", "upgrade.ready",
        "upgrade.restored", "backup.paused", "backup.taken", "backup.written",
        "rename.recorded", "rename.copied", "rename.written", "rename.moved",
        "rename.committed", "rename.restored", "prepare.before", "evaluate.after",
        "prepare.recorded",
        "yes.after", "no.after", "commit.received", "step.recorded", "acknowledge.after",
        "abort.received", "query.sent", "synchronize.received", "prepare.sent", "commit.before",
        "commit.recorded", "commit.sent", "abort.before", "abort.sent", "commit.finished",
        "query.received",
      ])
  }

  private static func counter(
    _ rules: String, seed: UInt64 = 0, node: String = "door", incarnation: UInt64 = 1
  ) throws -> FailpointCounter {
    FailpointCounter(
      rules: try FailpointRule.parse(list: rules), seed: seed, node: node,
      incarnation: incarnation)
  }

  /// Returns the counts at which the point acts, among its first hits.
  private static func acting(
    _ counter: FailpointCounter, at point: Failpoint = .recordAfter, hits: Int = 10
  ) -> [UInt64] {
    var counter = counter
    return (0..<hits).compactMap { _ in counter.hit(point)?.count }
  }

  @Test("A failpoint rule with a hit number acts once, at that hit of its failpoint")
  func hits() throws {
    var counter = try Self.counter("record.after=crash@3,step.before=stop@1")
    #expect(counter.hit(.recordAfter) == nil)
    #expect(counter.hit(.stepBefore)?.action == .stop)
    #expect(counter.hit(.stepBefore) == nil)
    #expect(counter.hit(.recordAfter) == nil)
    let third = counter.hit(.recordAfter)
    #expect(third?.action == .crash)
    #expect(third?.count == 3)
    #expect(counter.hit(.recordAfter) == nil)
    #expect(counter.hit(.sendAfter) == nil)
  }

  @Test("A failpoint rule without hit and probability always acts, unless an earlier rule acts")
  func always() throws {
    #expect(Self.acting(try Self.counter("record.after=delay:1ms"), hits: 3) == [1, 2, 3])
    var counter = try Self.counter("record.after=crash@2,record.after=delay:1ms")
    #expect(counter.hit(.recordAfter)?.action == .delay(.milliseconds(1)))
    #expect(counter.hit(.recordAfter)?.action == .crash)
    #expect(counter.hit(.recordAfter)?.action == .delay(.milliseconds(1)))
  }

  @Test("A failpoint rule for another node or incarnation does not act")
  func scope() throws {
    #expect(Self.acting(try Self.counter("door:record.after=crash@1/1")) == [1])
    #expect(Self.acting(try Self.counter("motor:record.after=crash@1")).isEmpty)
    #expect(Self.acting(try Self.counter("record.after=crash@1/2")).isEmpty)
    #expect(Self.acting(try Self.counter("record.after=crash@1/2", incarnation: 2)) == [1])
  }

  @Test("A failpoint acts with its probability, in the same way for the same seed")
  func probability() throws {
    func counts(_ seed: UInt64, _ node: String = "door", _ incarnation: UInt64 = 1) throws
      -> [UInt64]
    {
      let counter = try Self.counter(
        "record.after=crash%0.1", seed: seed, node: node, incarnation: incarnation)
      return Self.acting(counter, hits: 10_000)
    }
    let first = try counts(1)
    #expect((800...1200).contains(first.count))
    #expect(try counts(1) == first)
    #expect(try counts(2) != first)
    #expect(try counts(1, "motor") != first)
    #expect(try counts(1, "door", 2) != first)
  }

  @Test("The environment variable enables the failpoints of the given node only")
  func environment() throws {
    func counter(_ environment: [String: String]) throws -> FailpointCounter? {
      try FailpointCounter(node: "door", incarnation: 1, environment: environment)
    }
    #expect(try counter([:]) == nil)
    #expect(try counter(["PIPERUNTIME_FAILPOINTS": ""]) == nil)
    #expect(try counter(["PIPERUNTIME_FAILPOINTS": "motor:step.before=crash"]) == nil)
    let armed = try counter([
      "PIPERUNTIME_FAILPOINTS": "door:record.after=crash@2", "PIPERUNTIME_FAILPOINT_SEED": "7",
    ])
    #expect(Self.acting(try #require(armed)) == [2])
    #expect(throws: FailpointError.self) {
      try counter([
        "PIPERUNTIME_FAILPOINTS": "step.before=crash", "PIPERUNTIME_FAILPOINT_SEED": "x",
      ])
    }
    // A malformed rule for another node is an error as well: otherwise it would be found only at
    // that node's start.
    #expect(throws: FailpointError.self) {
      try counter(["PIPERUNTIME_FAILPOINTS": "motor:step.before=burn"])
    }
  }
}
