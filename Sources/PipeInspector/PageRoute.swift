import PipeWeb

/// What the page's server answers, beside the files that the page is made of.
package enum PageRoute: String, CaseIterable, Sendable {
  case about = "GET /api/about"
  case changes = "GET /api/changes"
  case machine = "GET /api/machine"
  case enabled = "GET /api/enabled"
  case state = "GET /api/state"
  case letters = "GET /api/letters"
  case send = "POST /api/send"
  case letter = "POST /api/letter"

  /// `nil` where there is none for a request.
  init?(_ request: WebRequest) { self.init(rawValue: "\(request.method) \(request.path)") }

  /// `GET`, `POST`.
  package var method: String { String(rawValue.prefix { $0 != " " }) }

  /// `/api/about`, …
  package var path: String { String(rawValue.drop { $0 != " " }.dropFirst()) }
}
