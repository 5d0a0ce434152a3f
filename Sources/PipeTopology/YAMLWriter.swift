import CYAML
import PipeMachines

extension OrderedValue {
  /// The value as YAML text. Mappings and lists are in block style; each leaf is on one line.
  package var yaml: String {
    let writer = YAMLWriter()
    writer.write(self)
    return writer.finish()
  }
}

/// Writes a document with libyaml's emitter.
///
/// The output has the same values for readers of YAML 1.1 and of YAML 1.2.
private final class YAMLWriter {
  private let emitter = UnsafeMutablePointer<yaml_emitter_t>.allocate(capacity: 1)
  private var bytes: [UInt8] = []

  init() {
    guard yaml_emitter_initialize(emitter) == 1 else { fatalError("libyaml: out of memory") }
    yaml_emitter_set_output(
      emitter,
      { writer, bytes, count in
        let writer = Unmanaged<YAMLWriter>.fromOpaque(writer!).takeUnretainedValue()
        writer.bytes.append(contentsOf: UnsafeBufferPointer(start: bytes, count: count))
        return 1
      }, Unmanaged.passUnretained(self).toOpaque())
    yaml_emitter_set_width(emitter, -1)
    emit { yaml_stream_start_event_initialize($0, YAML_UTF8_ENCODING) }
    emit { yaml_document_start_event_initialize($0, nil, nil, nil, 1) }
  }

  deinit {
    yaml_emitter_delete(emitter)
    emitter.deallocate()
  }

  /// Ends the document and returns its text.
  func finish() -> String {
    emit { yaml_document_end_event_initialize($0, 1) }
    emit { yaml_stream_end_event_initialize($0) }
    yaml_emitter_flush(emitter)
    return String(decoding: bytes, as: UTF8.self)
  }

  func write(_ value: OrderedValue) {
    switch value {
    case .leaf(let value): write(value)
    case .block(let text): write(text, YAML_LITERAL_SCALAR_STYLE)
    case .list(let values):
      writeList(YAML_BLOCK_SEQUENCE_STYLE) { for value in values { write(value) } }
    case .mapping(let members):
      writeMapping(YAML_BLOCK_MAPPING_STYLE) {
        for (key, value) in members {
          writeText(key)
          write(value)
        }
      }
    }
  }

  private func write(_ value: JSONValue) {
    switch value {
    case .string(let text): writeText(text)
    case .array(let values):
      writeList(YAML_FLOW_SEQUENCE_STYLE) { for value in values { write(value) } }
    case .object(let members):
      writeMapping(YAML_FLOW_MAPPING_STYLE) {
        for key in members.keys.sorted() {
          writeText(key)
          write(members[key]!)
        }
      }
    case .null, .bool, .integer, .number: write(value.text, YAML_PLAIN_SCALAR_STYLE)
    }
  }

  private func writeText(_ text: String) {
    write(
      text, Self.isPlain(text) ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE)
  }

  private func write(_ text: String, _ style: yaml_scalar_style_t) {
    var text = text
    text.withUTF8 { bytes in
      emit {
        yaml_scalar_event_initialize(
          $0, nil, nil, bytes.baseAddress, Int32(bytes.count), 1, 1, style)
      }
    }
  }

  private func writeList(_ style: yaml_sequence_style_t, _ elements: () -> Void) {
    emit { yaml_sequence_start_event_initialize($0, nil, nil, 1, style) }
    elements()
    emit { yaml_sequence_end_event_initialize($0) }
  }

  private func writeMapping(_ style: yaml_mapping_style_t, _ members: () -> Void) {
    emit { yaml_mapping_start_event_initialize($0, nil, nil, 1, style) }
    members()
    emit { yaml_mapping_end_event_initialize($0) }
  }

  private func emit(_ initialize: (UnsafeMutablePointer<yaml_event_t>) -> Int32) {
    var event = yaml_event_t()
    // The emitter takes ownership of the event. All text is valid, so emitting fails only if no
    // memory is available.
    guard initialize(&event) == 1, yaml_emitter_emit(emitter, &event) == 1 else {
      fatalError(
        "libyaml: \(emitter.pointee.problem.map { String(cString: $0) } ?? "out of memory")")
    }
  }

  // MARK: Plain scalars

  /// Returns whether a text can be written without quotes.
  private static func isPlain(_ text: String) -> Bool {
    // YAML 1.1 reads these words as Booleans, and some other texts as numbers or dates.
    guard !["y", "yes", "n", "no", "on", "off"].contains(text.lowercased()), !isYAML11Number(text),
      isWord(text), case .string = YAMLScalar(text: text, isPlain: true).value
    else { return false }
    return true
  }

  /// Returns whether YAML 1.1 may read a text as a number or a date, such as `1_000`, `0b1` or
  /// `2026-01-02`.
  private static func isYAML11Number(_ text: String) -> Bool {
    guard let first = text.utf8.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first)
    else { return false }
    return text.utf8.allSatisfy { "0123456789abcdefABCDEFoxOX_.-".utf8.contains($0) }
  }

  /// Returns whether a text consists only of characters that need no quotes.
  private static func isWord(_ text: String) -> Bool {
    let text = text.hasPrefix("/") ? text.dropFirst() : text[...]
    guard let first = text.utf8.first, isLetter(first) || first == UInt8(ascii: "$") else {
      return false
    }
    return text.utf8.allSatisfy { isLetter($0) || "_./$-".utf8.contains($0) }
  }

  private static func isLetter(_ byte: UInt8) -> Bool {
    NamePattern.matches(String(UnicodeScalar(byte)), allowingDots: false)
  }
}
