/// The forms in which a trace is written.
package enum TraceForm: String, Hashable, Sendable, CaseIterable {
  /// For a person: each step below the one that has caused it.
  case text
  /// The trace event format of Chromium, which Perfetto and `chrome://tracing` read.
  case chrome
  /// OpenTelemetry's traces as OTLP writes them in JSON.
  case otlp
  /// A sequence diagram of Mermaid.
  case mermaid

  /// The trace in this form, a part after the other.
  package func write(_ trace: Trace, to write: (String) throws -> Void) throws {
    switch self {
    case .text: try TextTrace(trace).write(to: write)
    case .chrome: try ChromeTrace(trace).write(to: write)
    case .otlp: try OTLPTrace(trace).write(to: write)
    case .mermaid: try MermaidTrace(trace).write(to: write)
    }
  }
}
