import FoundationEssentials
import PipeRuntime
import PipeSystem

/// The figures of one run, as a file keeps them.
struct BenchmarkRecord: Codable {
  /// A figure as it was measured.
  struct Entry: Codable {
    var section: String
    var name: String
    var value: Double
    var unit: Quantity.Unit
    /// Of the raw peer in the same run.
    var baseline: Double?
  }

  /// What it was taken on.
  var machine: String
  /// When it began.
  var time: String
  private(set) var figures: [Entry] = []

  init(machine: String, time: String) {
    self.machine = machine
    self.time = time
  }

  /// Reads a file.
  init(file path: String) throws {
    guard let bytes = FileSystem.contents(of: path, limit: 16 << 20) else {
      throw HarnessError("\(path): this file cannot be read; 'make bench' writes bench.json")
    }
    do { self = try JSONDecoder().decode(Self.self, from: Data(bytes)) } catch {
      throw HarnessError("\(path): this is no file of figures: \(error)")
    }
  }

  mutating func add(_ figure: Figure, of section: Section) {
    // Nothing was measured where it is no number.
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
