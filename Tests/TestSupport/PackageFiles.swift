import Glibc
import Testing

/// The package's own folder.
package let packageRoot = #filePath.split(separator: "/", omittingEmptySubsequences: false)
  .dropLast(3).joined(separator: "/")

/// The bytes of a file of the package.
package func packageFile(_ path: String) throws -> [UInt8] {
  let file = try #require(fopen("\(packageRoot)/\(path)", "r"), "no file \(path)")
  defer { fclose(file) }
  var bytes: [UInt8] = []
  while case let byte = fgetc(file), byte != EOF { bytes.append(UInt8(byte)) }
  return bytes
}
