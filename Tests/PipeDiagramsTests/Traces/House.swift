import PipeMachines
import PipeDiagrams
import PipeWire

/// The step reports of a door that sends to a display, and of three nodes that synchronize an
/// event.
enum House {
  static let reportedSteps = [
    #"""
    {"node":"door","incarnation":1,"version":1,"index":1,"time":1700000000000000000,"cause":"request",
     "from":"closed","event":"open","state":{"open":{"persons":0}},"request":{"client":7,"number":3},
     "sent":[{"pipe":"door.out->display.in","stream":5,"number":9,"event":{"persons":{"count":0}}}]}
    """#,
    // The clock of the other process is slightly behind, and its step is reported first.
    #"""
    {"node":"display","incarnation":2,"version":8,"index":8,"time":1700000000000250000,
     "cause":"door.out->display.in","from":"dark","event":{"persons":{"count":0}},"state":"lit",
     "source":{"pipe":"door.out->display.in","stream":5,"number":9}}
    """#,
    #"""
    {"node":"display","incarnation":2,"version":9,"index":9,"time":1700000000002000000,"cause":"effect",
     "from":"lit","event":"fade","state":"dark","effect":8}
    """#,
    #"""
    {"node":"left","incarnation":1,"version":4,"index":4,"time":1700000000003000000,"cause":"both",
     "from":"a","event":"meet","state":"b","transaction":"3.17"}
    """#,
    #"""
    {"node":"both","incarnation":1,"version":2,"index":2,"time":1700000000003100000,"cause":"meet",
     "from":{"left":"a","right":"x"},"state":{"left":"b","right":"y"},"transaction":"3.17"}
    """#,
    #"""
    {"node":"right","incarnation":1,"version":6,"index":6,"time":1700000000003500000,"cause":"both",
     "from":"x","event":"meet","state":"y; \"<b>\"","transaction":"3.17"}
    """#,
    #"{"node":"door","incarnation":1,"version":90,"index":90,"skipped":89}"#,
  ]

  /// Returns a recorder with all these steps.
  static func recorder() throws -> TraceRecorder {
    let composite = CompositePlan(
      name: "both", components: ["left", "right"], nodes: ["left", "right"], vectors: [], events: []
    )
    var recorder = TraceRecorder(
      topology: "house", nodes: ["door", "display", "left", "right", "both"],
      classes: [
        ConflictClassPlan(
          name: "both", program: "nodes", durability: .volatile, composites: [composite],
          components: [])
      ])
    for text in reportedSteps.reversed() {
      recorder.take(try JSONRecord.decode(NodeStep.self, from: Array(text.utf8)))
    }
    return recorder
  }

  /// Returns the trace of these steps in a format.
  static func written(_ form: TraceFormat) throws -> String {
    var text = ""
    try form.write(try recorder().trace) { text += $0 }
    return text
  }
}
