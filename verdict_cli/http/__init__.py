"""HTTP: access control (`guard`), the API of `verdict serve` (`api`) and the pages of `verdict view` (`viewer`)."""
