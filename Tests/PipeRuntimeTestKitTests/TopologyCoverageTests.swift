import PipeRuntime
import Testing

import PipeRuntimeTestKit

@Suite("Coverage of a topology's steps")
struct TopologyCoverageTests {
  private let door: [TopologyStep] = [
    .moved("door", from: "open", to: "closing"), .moved("door", from: "closing", to: "closed"),
  ]
  private let lift = CompositeSpecification(
    name: "lift", components: ["door", "motor"], synchronize: ["emergencyStop", "restart"])

  private func change(
    _ node: String, _ version: UInt64, _ state: JSONValue, cause: String = "request",
    incarnation: UInt64 = 1, missed: UInt64 = 0
  ) -> StateChange {
    StateChange(
      node: node, incarnation: incarnation, version: version, time: 0, cause: cause, state: state,
      missedCount: missed)
  }

  @Test("A step is counted if a node's feed reports the states before and after the step")
  func steps() {
    let coverage = TopologyCoverage(expecting: door)
    let makeRecorder = coverage.makeRecorder(of: [])
    #expect(coverage.unseenSteps == door)
    makeRecorder(change("door", 0, ["open": ["persons": 3]]))
    makeRecorder(change("door", 1, ["closing": ["persons": 3]]))
    // Reports the same state again, as to a new subscriber.
    makeRecorder(change("door", 1, ["closing": ["persons": 3]]))
    // No step of this node is expected, so any step is allowed.
    makeRecorder(change("motor", 0, "idle"))
    makeRecorder(change("motor", 1, "moving"))
    #expect(coverage.entries.map(\.seenCount) == [1, 0])
    makeRecorder(change("door", 2, "closed"))
    coverage.assertComplete()
    // A state of a later process does not count as a step from the former process's state.
    makeRecorder(change("door", 2, "open", incarnation: 2))
    coverage.assertComplete()
  }

  @Test("A gap in a feed is reported and does not count as a step")
  func gaps() {
    let coverage = TopologyCoverage(expecting: door)
    let makeRecorder = coverage.makeRecorder(of: [])
    makeRecorder(change("door", 0, "open"))
    makeRecorder(change("door", 2, "closed", missed: 1))
    #expect(coverage.unseenSteps == door)
    #expect(coverage.unexpectedSteps == [])
    #expect(
      coverage.report.hasSuffix(
        "1 states changed too fast to be seen; their steps are not counted."))
  }

  @Test("Coverage expects a topology's synchronized events and counts them in the composite's feed")
  func synchronized() {
    let coverage = TopologyCoverage()
    let makeRecorder = coverage.makeRecorder(of: [lift])
    makeRecorder(change("lift", 0, ["door": "open", "motor": "idle"], cause: "initial"))
    makeRecorder(change("lift", 1, ["door": "closed", "motor": "idle"], cause: "door"))
    makeRecorder(
      change("lift", 2, ["door": "stopped", "motor": "stopped"], cause: "emergencyStop"))
    makeRecorder(
      change("lift", 2, ["door": "stopped", "motor": "stopped"], cause: "emergencyStop"))
    #expect(coverage.unseenSteps == [.synchronized("restart", by: "lift")])
    let failures = FailureReporter.capture { coverage.assertComplete() }
    #expect(
      failures == [
        """
        1 of 2 steps were not seen:
          restart by lift
          Make the topology take each step, or list exceptions in 'except:'.
        1 of 2 steps seen
          step                   seen
          emergencyStop by lift     1
          restart by lift           0  not seen
        """
      ])
    coverage.assertComplete(except: [.synchronized("restart", by: "lift")])
  }

  @Test("Incomplete coverage fails, and lists the missing steps and the superfluous exceptions")
  func lists() {
    let coverage = TopologyCoverage(expecting: door)
    let makeRecorder = coverage.makeRecorder(of: [])
    for (version, state) in ["open", "closing", "open"].enumerated() {
      makeRecorder(change("door", UInt64(version), .string(state)))
    }
    let failures = FailureReporter.capture {
      coverage.assertComplete(except: [door[0], .moved("hatch", from: "open", to: "closed")])
    }
    #expect(
      failures == [
        """
        1 of 2 steps were not seen:
          door from closing to closed
          Make the topology take each step, or list exceptions in 'except:'.
        'except:' contains names that match no expected step:
          hatch from open to closed
        'except:' contains steps that were seen:
          door from open to closing
        'expecting:' lacks steps that were seen:
          door from closing to open
        1 of 2 steps seen
          step                         seen
          door from open to closing       1
          door from closing to closed     0  not seen
          door from closing to open       1  not expected
        """
      ])
  }

  @Test("Coverage without expected steps fails as meaningless")
  func nothing() {
    let coverage = TopologyCoverage()
    coverage.makeRecorder(of: [])(change("door", 0, "open"))
    let failures = FailureReporter.capture { coverage.assertComplete() }
    #expect(failures.first?.hasPrefix("there are no steps to be seen") == true)
  }

  @Test(
    "Coverage adds the steps of concurrent topologies, and keeps the states of each topology apart")
  func several() {
    let coverage = TopologyCoverage(expecting: door)
    let feeds = [coverage.makeRecorder(of: [lift]), coverage.makeRecorder(of: [lift])]
    for (version, state) in ["open", "closing", "closed"].enumerated() {
      for makeRecorder in feeds { makeRecorder(change("door", UInt64(version), .string(state))) }
    }
    #expect(coverage.entries.map(\.seenCount) == [2, 2, 0, 0])
  }
}
