/// A self-signed certificate in PEM for `page.example` and 127.0.0.1, valid for a hundred years.
///
/// Created with
/// `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj /CN=page.example
/// -addext 'subjectAltName=DNS:page.example,IP:127.0.0.1' -keyout key.pem -out certificate.pem`.
package enum TestCertificate {
  package static let certificate = """
    -----BEGIN CERTIFICATE-----
    MIIBozCCAUqgAwIBAgIUGw2IyXcTr0jsgq4sBKmp9/IKElswCgYIKoZIzj0EAwIw
    FzEVMBMGA1UEAwwMcGFnZS5leGFtcGxlMCAXDTI2MTEyNDExNDMxOFoYDzIxMjYx
    MDMxMTE0MzE4WjAXMRUwEwYDVQQDDAxwYWdlLmV4YW1wbGUwWTATBgcqhkjOPQIB
    BggqhkjOPQMBBwNCAATzBhg+STwJYf5mAQlZPczYp/FO/Oh0Pf1ax81gV5dJUX9E
    +PBluRiqWARaQ0VDQtHZ/FM/GOtDNafGBa3KI9M+o3IwcDAdBgNVHQ4EFgQUNC+c
    1AA6v5WFUpn5Lcg1/0xUmAQwHwYDVR0jBBgwFoAUNC+c1AA6v5WFUpn5Lcg1/0xU
    mAQwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHREEFjAUggxwYWdlLmV4YW1wbGWHBH8A
    AAEwCgYIKoZIzj0EAwIDRwAwRAIgdFZJuUdAUgtKN4ZOR/l818tB8L0c+Uv8VWNI
    OC0hOCICIAKHV+jvz9TMmTUcriU6molBCqj4Y+HW2p6AwFfSkNhm
    -----END CERTIFICATE-----
    """

  package static let key = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgN0Wd76YA71qeKTrc
    IorM8Lsp4BI48UQpIPsfiPstA/OhRANCAATzBhg+STwJYf5mAQlZPczYp/FO/Oh0
    Pf1ax81gV5dJUX9E+PBluRiqWARaQ0VDQtHZ/FM/GOtDNafGBa3KI9M+
    -----END PRIVATE KEY-----
    """

  /// A private key that does not belong to ``certificate``.
  package static let otherKey = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgaMoIuSKZ5GiZP5B9
    rlrdpCoWIwwVT3InOFR1gllYUCyhRANCAASOBSyiEw3KpW4r5T++9e4u45O9urSY
    42WmZjkpvaZmkaVnff4h4HiHhXXA7fD4y5JHC4UTicy/MBRnwht8JCw8
    -----END PRIVATE KEY-----
    """
}
