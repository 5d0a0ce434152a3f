import PipeMachines
import PipeTopology
import PipeWire

/// The events that are tried where a pattern, or only a name, is given; and what was left out.
struct EventValues {
  private let section: ExploreSection
  private(set) var remarks: Set<ExplorationRemark> = []

  /// The most events that one pattern stands for.
  private static let limit = 10_000

  init(_ section: ExploreSection) { self.section = section }

  /// Every event of a pattern.
  /// - Parameters:
  ///   - owner: The node or the composite that takes it.
  ///   - fields: The fields of the event, with values to try.
  mutating func events(
    _ pattern: EventPattern, of owner: String, _ fields: [OracleOpening.Field]
  ) -> [JSONValue] {
    var payloads: [[String: JSONValue]] = [[:]]
    for field in fields {
      let values: [JSONValue]
      if let declared = pattern.fields[field.name]
        ?? section.values[owner]?[pattern.event]?[field.name]
      {
        values = declared.values
      } else {
        values = field.values
        if !field.isComplete {
          remarks.insert(
            .sampledValues(
              owner: owner, event: pattern.event, field: field.name, tried: values))
        }
      }
      payloads = payloads.flatMap { payload in
        values.map { value in
          var payload = payload
          payload[field.name] = value == .null ? nil : value
          return payload
        }
      }
      payloads = Array(payloads.prefix(Self.limit))
    }
    guard !fields.isEmpty else { return [.string(pattern.event)] }
    return payloads.map { .object([pattern.event: .object($0)]) }
  }

  mutating func note(_ remark: ExplorationRemark) { remarks.insert(remark) }
}
