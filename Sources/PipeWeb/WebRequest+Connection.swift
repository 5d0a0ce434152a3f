import CMicroHTTPD

extension WebRequest {
  private struct Fields {
    var headers: [String: String] = [:]
    var query: [String: String] = [:]
  }

  /// Reads the headers and the query of a connection.
  init(method: String, path: String, of connection: OpaquePointer, body: [UInt8]) {
    var fields = Fields()
    withUnsafeMutablePointer(to: &fields) { fields in
      MHD_get_connection_values(
        connection, .HEADER_KIND,
        { fields, _, name, value in
          guard let fields, let name, let value else { return .YES }
          let (key, text) = (String(cString: name).lowercased(), String(cString: value))
          let headers = fields.assumingMemoryBound(to: Fields.self)
          let former = headers.pointee.headers[key]
          headers.pointee.headers[key] = former.map { "\($0), \(text)" } ?? text
          return .YES
        }, fields)
      MHD_get_connection_values(
        connection, .GET_ARGUMENT_KIND,
        { fields, _, name, value in
          guard let fields, let name else { return .YES }
          fields.assumingMemoryBound(to: Fields.self).pointee.query[String(cString: name)] =
            value.map { String(cString: $0) } ?? ""
          return .YES
        }, fields)
    }
    self.init(
      method: method, path: path, query: fields.query, headers: fields.headers, body: body)
  }
}
