import PipeWire

/// The text formats of metrics.
package enum MetricFormat: Hashable, Sendable, CaseIterable {
  /// The Prometheus text format, version 0.0.4.
  case prometheus
  /// OpenMetrics 1.0.
  case openMetrics

  package var contentType: String {
    switch self {
    case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
    case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
    }
  }

  /// Chooses the format that a client prefers according to its `Accept` header. The default is the
  /// Prometheus text format, because every client can read it.
  package init(accept: String?) {
    var weights: [Self: Double] = [:]
    for entry in accept?.split(separator: ",") ?? [] {
      let parts = entry.split(separator: ";").map { $0.filter { $0 != " " }.lowercased() }
      let versions = parts.dropFirst().filter { $0.hasPrefix("version=") }.map { $0.dropFirst(8) }
      let weight = parts.last { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
      let format: Self
      switch parts.first {
      case "application/openmetrics-text"
      where versions.allSatisfy { ["1.0.0", "0.0.1"].contains($0) }:
        format = .openMetrics
      case "text/plain" where versions.allSatisfy({ $0 == "0.0.4" }): format = .prometheus
      default: continue
      }
      weights[format] = max(weights[format] ?? 0, weight)
    }
    let wanted = weights[.openMetrics] ?? 0
    self = wanted > 0 && wanted >= weights[.prometheus] ?? 0 ? .openMetrics : .prometheus
  }
}

/// Writes metrics as text.
package struct MetricText: Sendable {
  private let format: MetricFormat
  private var text: [UInt8] = []

  /// Returns the text of metric families. Families without samples are omitted.
  package static func of(_ families: [MetricFamily], as format: MetricFormat) -> [UInt8] {
    var writer = MetricText(format: format)
    for family in families where !family.samples.isEmpty { writer.write(family) }
    if format == .openMetrics { writer.add("# EOF\n") }
    return writer.text
  }

  private init(format: MetricFormat) { self.format = format }

  private mutating func write(_ family: MetricFamily) {
    // In the Prometheus text format, clients expect that a family has the same name as its samples.
    let name =
      switch (format, family.kind) {
      case (.prometheus, .counter): family.name + "_total"
      case (.prometheus, .info): family.name + "_info"
      default: family.name
      }
    add("# HELP \(name) \(Self.escaped(family.help, quotes: format == .openMetrics))\n")
    let kind = format == .prometheus && family.kind == .info ? .gauge : family.kind
    add("# TYPE \(name) \(kind.rawValue)\n")
    if format == .openMetrics, let unit = family.unit { add("# UNIT \(name) \(unit)\n") }
    for sample in family.samples { write(sample, of: family) }
  }

  private mutating func write(_ sample: MetricSample, of family: MetricFamily) {
    switch sample.value {
    case .count(let count): line(family.sampleName, sample.labels, "\(count)")
    case .number(let number): line(family.sampleName, sample.labels, Self.text(of: number))
    case .durations(let durations): write(durations, sample.labels, family.name)
    }
  }

  /// Writes a histogram. As Prometheus requires, the count of a bucket includes the counts of all
  /// smaller buckets.
  private mutating func write(
    _ durations: DurationCounts, _ labels: [MetricLabel], _ name: String
  ) {
    var sum: UInt64 = 0
    for (bound, count) in zip(DurationCounts.bounds, durations.counts) {
      sum &+= count
      line("\(name)_bucket", labels + [.init("le", Self.seconds(bound))], "\(sum)")
    }
    line("\(name)_bucket", labels + [.init("le", "+Inf")], "\(durations.count)")
    line("\(name)_count", labels, "\(durations.count)")
    line("\(name)_sum", labels, Self.seconds(durations.total))
  }

  private mutating func line(_ name: String, _ labels: [MetricLabel], _ value: String) {
    add(name)
    for (index, label) in labels.enumerated() {
      add(index == 0 ? "{" : ",")
      add("\(label.name)=\"\(Self.escaped(label.value, quotes: true))\"")
    }
    add(labels.isEmpty ? " " : "} ")
    add(value)
    add("\n")
  }

  private mutating func add(_ part: String) { text.append(contentsOf: part.utf8) }

  private static func seconds(_ nanoseconds: UInt64) -> String {
    text(of: Double(nanoseconds) / 1e9)
  }

  /// Returns the text of a number: `5`, `0.25`, `1.6e-05`.
  private static func text(of number: Double) -> String {
    let text = "\(number)"
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }

  /// Escapes characters that would end the label's value or the line.
  private static func escaped(_ text: String, quotes: Bool) -> String {
    guard text.utf8.contains(where: { [0x0A, 0x22, 0x5C].contains($0) }) else { return text }
    return text.unicodeScalars.reduce(into: "") { escaped, scalar in
      switch scalar {
      case "\n": escaped += "\\n"
      case "\\": escaped += "\\\\"
      case "\"" where quotes: escaped += "\\\""
      default: escaped.unicodeScalars.append(scalar)
      }
    }
  }
}

extension MetricFamily {
  /// The name of the samples of this family.
  fileprivate var sampleName: String {
    switch kind {
    case .counter: name + "_total"
    case .info: name + "_info"
    case .gauge, .histogram: name
    }
  }
}

/// A metric family of Prometheus: samples of the same kind, distinguished by their labels.
package struct MetricFamily: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable {
    /// A count that starts at 0 and only grows. When the process that counts is restarted, the
    /// count starts at 0 again.
    case counter
    case gauge
    /// A distribution of durations, counted in buckets.
    case histogram
    /// A constant value of 1. The information is in the labels.
    case info
  }

  package var kind: Kind
  /// The name, without the suffix `_total` or `_info`. If the family has a unit, the name ends with
  /// the unit.
  package var name: String
  /// The unit, such as `seconds` or `bytes`; `nil` for counts.
  package var unit: String?
  package var help: String
  package var samples: [MetricSample] = []

  package init(_ kind: Kind, _ name: String, unit: String? = nil, _ help: String) {
    self.kind = kind
    self.name = name
    self.unit = unit
    self.help = help
  }

  /// Adds a sample.
  package mutating func add(_ value: MetricSample.Value, _ labels: [MetricLabel]) {
    samples.append(MetricSample(labels: labels, value: value))
  }
}

/// A value with its labels.
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
  /// Returns the value 1 for `true`, and 0 for `false`.
  package static func flag(_ isSet: Bool) -> Self { .count(isSet ? 1 : 0) }
}

/// A label of a sample, such as `node="door"`.
package struct MetricLabel: Hashable, Sendable {
  package var name: String
  package var value: String

  package init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}
