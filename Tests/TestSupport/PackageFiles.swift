import Glibc
import Testing

/// The root directory of this package.
package let packageRoot = #filePath.split(separator: "/", omittingEmptySubsequences: false)
  .dropLast(3).joined(separator: "/")

/// Returns the contents of a file of this package.
package func packageFile(_ path: String) throws -> [UInt8] {
  let file = try #require(fopen("\(packageRoot)/\(path)", "r"), "no file \(path)")
  defer { fclose(file) }
  var bytes: [UInt8] = []
  while case let byte = fgetc(file), byte != EOF { bytes.append(UInt8(byte)) }
  return bytes
}
