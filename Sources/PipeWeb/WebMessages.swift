/// What a client asks of a web server.
package struct WebRequest: Hashable, Sendable {
  /// `GET`, `POST`, …
  package var method: String
  /// Without the query, as it stands in the request, percent escapes read.
  package var path: String
  /// The values of the query, by name; of several the last one.
  package var query: [String: String]
  /// By their names in lower case; of several the values, with commas between them.
  package var headers: [String: String]
  package var body: [UInt8]

  package init(
    method: String = "GET", path: String, query: [String: String] = [:],
    headers: [String: String] = [:], body: [UInt8] = []
  ) {
    self.method = method
    self.path = path
    self.query = query
    self.headers = headers
    self.body = body
  }
}

/// What it answers.
package struct WebResponse: Hashable, Sendable {
  /// 200, 404, …
  package var status: Int
  package var headers: [String: String]
  package var body: [UInt8]

  package init(_ status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// An answer in words.
  package init(_ status: Int, _ text: String) {
    self.init(
      status, headers: ["Content-Type": "text/plain; charset=utf-8"],
      body: Array((text + "\n").utf8))
  }
}
