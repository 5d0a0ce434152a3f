import Glibc
import PipeRuntime

/// A JSON file with the data of an example.
package struct DataFile: Hashable, Sendable {
  package let path: String

  /// The maximum size of a file. Unit: bytes.
  private static let maximumByteCount = 1 << 20

  /// - Parameter name: The value of the machine's parameter `path`. A relative path is relative to
  ///   the directory of the topology file.
  package init(_ name: String) { path = TopologyFile.path(of: name) }

  /// Reads a value from the file.
  package func decode<Value: Decodable>(_: Value.Type = Value.self) throws(DataFileError) -> Value {
    let json: JSONValue
    do { json = try JSONValue(parsing: bytes()) } catch let error as DataFileError {
      throw error
    } catch {
      throw fileError("is not valid JSON; correct the file")
    }
    do { return try json.decode() } catch {
      throw fileError("has unexpected content: \(Self.wording(of: error)); correct the file")
    }
  }

  /// Returns an error that names the file.
  package func fileError(_ reason: String) -> DataFileError {
    DataFileError("the data file '\(path)' \(reason), or set the parameter 'path' to another file")
  }

  private func bytes() throws -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      throw fileError("cannot be opened: \(SystemError.text(of: errno)); create the file")
    }
    defer { close(descriptor) }
    do {
      let bytes = try FileSystem.read(descriptor, limit: Self.maximumByteCount + 1)
      guard bytes.count <= Self.maximumByteCount else {
        throw fileError("is larger than \(Self.maximumByteCount) bytes; shorten the file")
      }
      return bytes
    } catch let error as SystemError {
      throw fileError("cannot be read: \(SystemError.text(of: error.code)); replace the file")
    }
  }

  private static func wording(of error: any Error) -> String {
    guard let error = error as? DecodingError else { return "\(error)" }
    switch error {
    case .keyNotFound(let key, let context):
      return "\(codingPathText(context)) has no '\(key.stringValue)'"
    case .typeMismatch(let type, let context), .valueNotFound(let type, let context):
      return "\(codingPathText(context)) is not of type \(type)"
    case .dataCorrupted(let context):
      return "\(codingPathText(context)): \(context.debugDescription)"
    @unknown default: return "\(error)"
    }
  }

  /// Returns the text of a coding path, such as `[2].questions[0]`. Indices start at 0.
  private static func codingPathText(_ context: DecodingError.Context) -> String {
    let path = context.codingPath.map { key in
      key.intValue.map { "[\($0)]" } ?? ".\(key.stringValue)"
    }.joined()
    return path.isEmpty ? "the file" : "'\(path.drop { $0 == "." })'"
  }
}

/// The reason why a data file cannot be used. The text also says what to do.
package struct DataFileError: Error, Hashable, Sendable, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}
