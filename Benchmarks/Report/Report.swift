import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupport
import PipeSystem

/// Prints each figure when it is measured, and the results of all targets at the end.
struct Report {
  private var figures: [Figure] = []
  private var section = Section.roundtrip
  private var sectionStart = ContinuousClock.now
  private var record = BenchmarkRecord(
    machine: HostMachine.summary, time: Timestamp.now.description)
  /// The record of an earlier run. Its figures are printed next to the figures of this run.
  private let earlier: BenchmarkRecord?

  private static let widths = (name: 48, value: 15, ratio: 9, target: 17)

  init(comparedWith earlier: BenchmarkRecord? = nil) {
    self.earlier = earlier
    Self.write("machine: \(HostMachine.summary)")
    if let earlier { Self.write("compared with: \(earlier.machine), \(earlier.time)") }
  }

  /// Begins a section: prints its title, the load of the host, and the column headings.
  mutating func begin(_ section: Section) {
    self.section = section
    sectionStart = .now
    Self.write("\n\(section.rawValue): \(section.summary) (load \(HostMachine.load))")
    Self.write(
      Self.line(
        "", "measured", "baseline", "ratio", "target", "", earlier.map { _ in ("before", "now") }))
  }

  /// Ends a section: prints the duration.
  func end() {
    let elapsed = sectionStart.duration(to: .now) / .seconds(1)
    Self.write("  \(section.rawValue) took \(elapsed.fixed(0)) s")
  }

  /// Prints a remark about the preceding figures.
  func note(_ text: String) { Self.write("  " + text) }

  mutating func add(_ figure: Figure) {
    figures.append(figure)
    record.add(figure, of: section)
    let before = earlier?[section, figure.name]
    Self.write(
      Self.line(
        figure.name, "\(figure.value)", figure.baseline.map { "\($0)" } ?? "",
        figure.ratio.map { "\($0.fixed(2))×" } ?? "", figure.targetText,
        figure.isMet.map { $0 ? "met" : "NOT MET" } ?? "",
        before.map { ("\($0)", "\((figure.value.value / $0.value).fixed(2))×") }))
  }

  /// Prints the results of all targets, and writes all figures to a file.
  func finish(_ path: String?) throws {
    if let path { try record.write(to: path) }
    let figuresWithTarget = figures.filter { $0.isMet != nil }
    let missedFigures = figuresWithTarget.filter { $0.isMet == false }
    Self.write(
      "\ntargets met: \(figuresWithTarget.count - missedFigures.count) of \(figuresWithTarget.count)"
    )
    for figure in missedFigures {
      let ratio = figure.ratio.map { " (\($0.fixed(2))× the baseline)" } ?? ""
      Self.write("  not met: \(figure.name): \(figure.value)\(ratio), target \(figure.targetText)")
    }
  }

  /// Prints a line, and flushes standard output, which is buffered if it is a pipe.
  private static func write(_ line: String) {
    print(line)
    fflush(nil)
  }

  private static func line(
    _ name: String, _ value: String, _ baseline: String, _ ratio: String, _ target: String,
    _ verdict: String, _ change: (before: String, ratio: String)? = nil
  ) -> String {
    var text = "  " + name.padded(to: widths.name) + value.rightAligned(in: widths.value)
    if let change {
      text +=
        change.before.rightAligned(in: widths.value) + change.ratio.rightAligned(in: widths.ratio)
    }
    text += baseline.rightAligned(in: widths.value) + ratio.rightAligned(in: widths.ratio)
    text += target.rightAligned(in: widths.target)
    return verdict.isEmpty ? text : text + "  " + verdict
  }
}

/// The host on which the figures are measured.
enum HostMachine {
  static var summary: String {
    let lines = text(of: "/proc/cpuinfo").split(separator: "\n")
    let model = lines.first { $0.hasPrefix("model name") }?.split(separator: ":").last
    let count = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    let kernel = text(of: "/proc/sys/kernel/osrelease").split(separator: "\n").first ?? "?"
    let name = model.map { String($0.drop { $0 == " " }) } ?? "unknown processor"
    return "\(count) cores of \(name), Linux \(kernel)"
  }

  /// The average number of runnable processes in the last minute.
  static var load: String {
    String(text(of: "/proc/loadavg").split(separator: " ").first ?? "?")
  }

  static func text(of path: String) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    let bytes = (try? FileSystem.read(descriptor)) ?? []
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// The figures of a run, in the form in which they are stored in a file.
struct BenchmarkRecord: Codable {
  /// A measured figure.
  struct Entry: Codable {
    var section: String
    var name: String
    var value: Double
    var unit: Quantity.Unit
    /// The value of the baseline in the same run.
    var baseline: Double?
  }

  /// A description of the host.
  var machine: String
  /// The time at which the run started.
  var time: String
  private(set) var figures: [Entry] = []

  init(machine: String, time: String) {
    self.machine = machine
    self.time = time
  }

  /// Reads the record from a file.
  init(file path: String) throws {
    guard let bytes = FileSystem.contents(of: path, limit: 16 << 20) else {
      throw HarnessError("\(path): this file cannot be read; 'make bench' writes bench.json")
    }
    do { self = try JSONDecoder().decode(Self.self, from: Data(bytes)) } catch {
      throw HarnessError("\(path): this is no file of figures: \(error)")
    }
  }

  mutating func add(_ figure: Figure, of section: Section) {
    // A value that is not finite means that nothing was measured.
    guard figure.value.value.isFinite else { return }
    figures.append(
      Entry(
        section: section.rawValue, name: figure.name, value: figure.value.value,
        unit: figure.value.unit, baseline: figure.baseline?.value))
  }

  subscript(section: Section, name: String) -> Quantity? {
    figures.first { $0.section == section.rawValue && $0.name == name }
      .map { Quantity(value: $0.value, unit: $0.unit) }
  }

  func write(to path: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    try FileSystem.replace(path, with: Array(try encoder.encode(self)) + [0x0A])
  }
}

/// A line of the report: a measured value, with an optional baseline and target.
struct Figure {
  /// The target for a figure.
  enum Target {
    case atMost(Quantity)
    case atLeast(Quantity)
    case exactly(Quantity)
    /// A maximum ratio to the baseline.
    case ratioAtMost(Double)
    case ratioAtLeast(Double)
  }

  var name: String
  var value: Quantity
  var baseline: Quantity?
  var target: Target?

  /// The value divided by the baseline.
  var ratio: Double? { baseline.map { value.value / $0.value } }

  /// Whether the figure meets its target; `nil` without a target.
  var isMet: Bool? {
    switch target {
    case .atMost(let limit): value <= limit
    case .atLeast(let limit): value >= limit
    case .exactly(let expected): value == expected
    case .ratioAtMost(let limit): ratio.map { $0 <= limit }
    case .ratioAtLeast(let limit): ratio.map { $0 >= limit }
    case nil: nil
    }
  }

  var targetText: String {
    switch target {
    case .atMost(let limit): "≤ \(limit)"
    case .atLeast(let limit): "≥ \(limit)"
    case .exactly(let expected): "= \(expected)"
    case .ratioAtMost(let limit): "≤ \(limit.fixed(2))×"
    case .ratioAtLeast(let limit): "≥ \(limit.fixed(2))×"
    case nil: ""
    }
  }
}
