/// What a client of a history is told.
package struct InspectionDelta: Hashable, Sendable {
  /// What it asks with the next time.
  package var cursor: UInt64
  /// When it is told, by the clock that the times of steps are of: a browser's may be another. Unit: nanoseconds
  /// since 1970.
  package var time: Int64 = 0
  /// Whether it has to forget what it knows: that was another history.
  package var isWhole: Bool
  /// How things stand, in the order in which they came to stand so.
  package var standing: [[UInt8]] = []
  /// What has happened, in its order.
  package var happened: [[UInt8]] = []
  /// What has happened before that and is not told. Unit: entries.
  package var skipped: UInt64 = 0
  /// What was written into logs, in its order.
  package var written: [[UInt8]] = []
  /// What was written before that and is not told. Unit: entries.
  package var unwritten: UInt64 = 0

  init(cursor: UInt64, isWhole: Bool) {
    self.cursor = cursor
    self.isWhole = isWhole
  }

  /// As it travels.
  package var json: [UInt8] {
    var json = Array(
      """
      {"cursor":"\(cursor)","time":\(time),"whole":\(isWhole),"skipped":\(skipped),"unwritten":\(unwritten)
      """.utf8)
    Self.append("standing", standing, to: &json)
    Self.append("happened", happened, to: &json)
    Self.append("written", written, to: &json)
    json.append(UInt8(ascii: "}"))
    return json
  }

  private static func append(_ name: StaticString, _ parts: [[UInt8]], to json: inout [UInt8]) {
    json += ",\"\(name)\":[".utf8
    for (place, part) in parts.enumerated() {
      if place > 0 { json.append(UInt8(ascii: ",")) }
      json += part
    }
    json.append(UInt8(ascii: "]"))
  }
}
