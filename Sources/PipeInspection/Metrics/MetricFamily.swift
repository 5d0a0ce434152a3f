import PipeWire

/// Figures of one kind, by what they are about: a family of metrics, in the words of Prometheus.
package struct MetricFamily: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable {
    /// Only grows, from 0, until what it is about begins anew.
    case counter
    case gauge
    /// How long something took.
    case histogram
    /// Always 1: what is told stands in the labels.
    case info
  }

  package var kind: Kind
  /// Without `_total` or `_info`; it ends with the unit, where there is one.
  package var name: String
  /// `seconds`, `bytes`; `nil` for what is counted.
  package var unit: String?
  package var help: String
  package var samples: [MetricSample] = []

  package init(_ kind: Kind, _ name: String, unit: String? = nil, _ help: String) {
    self.kind = kind
    self.name = name
    self.unit = unit
    self.help = help
  }

  /// Adds a figure.
  package mutating func add(_ value: MetricSample.Value, _ labels: [MetricLabel]) {
    samples.append(MetricSample(labels: labels, value: value))
  }
}

/// One figure, and what it is about.
package struct MetricSample: Hashable, Sendable {
  package enum Value: Hashable, Sendable {
    case count(UInt64)
    case number(Double)
    case durations(DurationCounts)
  }

  package var labels: [MetricLabel]
  package var value: Value
}

extension MetricSample.Value {
  /// 1 or 0.
  package static func flag(_ isSet: Bool) -> Self { .count(isSet ? 1 : 0) }
}

/// What a figure is about: `node="door"`.
package struct MetricLabel: Hashable, Sendable {
  package var name: String
  package var value: String

  package init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}
