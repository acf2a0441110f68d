;;; hipcache as a package of Guix: guix build -f hipcache.scm
(use-modules (guix packages)
             (guix gexp)
             (guix build-system pyproject)
             ((guix licenses) #:prefix license:)
             (gnu packages compression)
             (gnu packages python-build)
             (gnu packages python-xyz))

(package
  (name "hipcache")
  (version "1.0.0")
  (source (local-file "../.." "hipcache-checkout" #:recursive? #t))
  (build-system pyproject-build-system)
  (arguments
   (list
    #:tests? #f                         ;they need HIP's compilers
    #:phases
    #~(modify-phases %standard-phases
        (add-before 'build 'dynamic-launcher
          (lambda _
            (setenv "HIPCACHE_BUILD" "package")
            (setenv "CC" "gcc")))
        (add-after 'unpack 'name-zstd
          (lambda* (#:key inputs #:allow-other-keys)
            (substitute* '("plugins/hipcache/base/compression.py"
                           "plugins/hipcache/native/direct/pack.c")
              (("libzstd\\.so\\.1")
               (search-input-file inputs "/lib/libzstd.so.1"))))))))
  (native-inputs (list python-hatchling))
  (inputs (list `(,zstd "lib")))
  (propagated-inputs (list python-pyyaml))
  (home-page "https://example.org/hipcache")
  (synopsis "Compile cache for AMD HIP that caches every GPU architecture on its own")
  (description
   "A HIP library is compiled for a dozen GPU architectures.  hipcache keeps
the device code of each one, and the code of the host, on its own: after an
architecture was added, or after an edit of host code, only what is new is
compiled.  Its objects are those of the compiler, byte for byte.")
  (license license:expat))
