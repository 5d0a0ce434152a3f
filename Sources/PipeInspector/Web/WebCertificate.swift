import Glibc
import PipeSystem

/// The certificate of a server, with its private key.
package struct WebCertificate: Sendable {
  let certificateFile: String
  let keyFile: String
  /// The certificate (`certificate`) and the private key (`key`) in PEM format, each with a
  /// terminating zero.
  let certificate: [CChar]
  let key: [CChar]

  /// Reads the certificate and its private key from files.
  package init(certificate: String, key: String) throws(WebCertificateError) {
    certificateFile = certificate
    keyFile = key
    let (text, _) = try Self.read(certificate)
    guard text.contains("-----BEGIN CERTIFICATE-----") else { throw .noCertificate(certificate) }
    let (secret, mode) = try Self.read(key)
    guard !secret.contains("ENCRYPTED") else { throw .encrypted(key) }
    guard secret.contains("PRIVATE KEY-----") else { throw .noKey(key) }
    guard mode & 0o077 == 0 else { throw .keyReadableByOthers(key, mode: mode & 0o777) }
    self.certificate = Array(text.utf8CString)
    self.key = Array(secret.utf8CString)
  }

  /// The maximum size of a certificate or key file. Unit: bytes.
  private static let limit = 1 << 20

  private static func read(
    _ path: String
  ) throws(WebCertificateError) -> (text: String, mode: mode_t) {
    // Without O_NONBLOCK, opening a named pipe would block.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw .unreadable(SystemError("open", on: path, code: errno)) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      throw .notARegularFile(path)
    }
    guard let bytes = try? FileSystem.read(descriptor, limit: limit) else {
      throw .unreadable(SystemError("read", on: path, code: EIO))
    }
    return (String(decoding: bytes, as: UTF8.self), status.st_mode)
  }
}

/// The errors of a certificate or its key.
package enum WebCertificateError: Error, Hashable {
  case unreadable(SystemError)
  case notARegularFile(String)
  case noCertificate(String)
  case noKey(String)
  /// The key is protected by a password, and a server cannot ask for a password.
  case encrypted(String)
  case keyReadableByOthers(String, mode: mode_t)
  /// The certificate and the key do not match, or one of them is damaged.
  case mismatchedKey(certificate: String, key: String)
  /// The installed HTTP library does not support TLS.
  case notSupported
}

extension WebCertificateError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .unreadable(let error): "cannot read the TLS certificate or key: \(error)"
    case .notARegularFile(let path): "'\(path)' is not a file; give a file in PEM format"
    case .noCertificate(let path):
      "no certificate in '\(path)'; the file must be in PEM format, with a line -----BEGIN "
        + "CERTIFICATE-----"
    case .noKey(let path):
      "no key in '\(path)'; the file must be in PEM format, with a line -----BEGIN PRIVATE "
        + "KEY-----"
    case .encrypted(let path):
      "the key in '\(path)' has a password, which is not supported; 'openssl pkey -in "
        + "\(path)' writes the key without a password"
    case .keyReadableByOthers(let path, let mode):
      "other users may read the key in '\(path)', whose mode is \(String(mode, radix: 8)); "
        + "run 'chmod 600 \(path)', and make sure that no other user has a copy"
    case .mismatchedKey(let certificate, let key):
      "the certificate in '\(certificate)' and the key in '\(key)' do not match, or one is "
        + "damaged; 'openssl x509 -noout -pubkey -in \(certificate)' and 'openssl pkey -pubout "
        + "-in \(key)' must print the same"
    case .notSupported:
      "libmicrohttpd on this system does not support TLS; serve the page only on this host, "
        + "and use ssh -L"
    }
  }
}
