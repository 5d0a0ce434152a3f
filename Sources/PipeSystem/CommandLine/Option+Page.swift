extension Option {
  /// By what a web server proves to be the one that is meant.
  package static let tls = [
    Option("tls-certificate", value: .file, "Serves by TLS, with this certificate, in PEM"),
    Option(
      "tls-key", value: .file, "The key of the certificate, in PEM; its owner alone may read it"),
  ]

  /// A place in the file system at which a web server listens.
  package static let socket = Option(
    "socket", value: .text("PATH"),
    "Listens at a Unix socket instead, with mode 0600: for ssh -L and proxies")

  /// How a page in a browser is served: by the inspector, and by the orchestrator, which starts it.
  package static let page =
    [
      Option(
        "port", value: .count("PORT"),
        "The port at which it listens; 0 is any that is free. Default: 0"),
      Option(
        "address", value: .text("ADDRESS"),
        "The address at which it listens, in numbers. Default: 127.0.0.1; one that others reach needs TLS"
      ),
    ] + tls + [
      Option(
        "host", value: .text("NAME"), repeats: true,
        "Another name by which a browser calls it: in the certificate, or of a proxy; may be given again"
      ),
      socket, Option("read-only", "Takes no events, and changes no dead letters"),
    ]
}
