/// What the page is made of, as it stands in the folder `Page`: it needs nothing of any other server.
enum PageFiles {
  struct File: Sendable {
    let type: String
    let bytes: [UInt8]
  }

  /// By their paths.
  static let all: [String: File] = [
    "/": File(type: "text/html; charset=utf-8", bytes: PackageResources.page_html),
    "/page.js": script(PackageResources.page_js),
    "/panels.js": script(PackageResources.panels_js),
    "/graph.js": script(PackageResources.graph_js),
    "/node.js": script(PackageResources.node_js),
    "/chart.js": script(PackageResources.chart_js),
    "/logs.js": script(PackageResources.logs_js),
    "/fold.js": script(PackageResources.fold_js),
    "/moment.js": script(PackageResources.moment_js),
    "/act.js": script(PackageResources.act_js),
    "/talk.js": script(PackageResources.talk_js),
    "/page.css": File(type: "text/css; charset=utf-8", bytes: PackageResources.page_css),
    "/icon.svg": File(type: "image/svg+xml", bytes: PackageResources.icon_svg),
  ]

  private static func script(_ bytes: [UInt8]) -> File {
    File(type: "text/javascript; charset=utf-8", bytes: bytes)
  }
}
