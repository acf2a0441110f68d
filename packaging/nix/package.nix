{ lib, python3Packages, makeSetupHook, zstd }:

python3Packages.buildPythonApplication {
  pname = "hipcache";
  version = "1.0.0";
  pyproject = true;
  src = ../..;

  build-system = [ python3Packages.hatchling ];
  dependencies = [ python3Packages.pyyaml ];
  env.HIPCACHE_BUILD = "package";

  # Both open it as they need it; there is no common place in which it would be found.
  postPatch = ''
    substituteInPlace plugins/hipcache/base/compression.py plugins/hipcache/native/direct/pack.c \
      --replace-fail '"libzstd.so.1"' '"${lib.getLib zstd}/lib/libzstd.so.1"'
  '';

  # The launcher is a program of its own, and starts the engine beside it: neither may be wrapped.
  dontWrapPythonPrograms = true;
  postFixup = ''
    patchShebangs $out/bin/hipcache-engine
    buildPythonPath "$out $dependencies"
    substituteInPlace $out/bin/hipcache-engine \
      --replace-fail "import sys" "import sys, site; [site.addsitedir(p) for p in '$program_PYTHONPATH'.split(':')]"
  '';

  pythonImportsCheck = [ "hipcache" ];

  passthru.setupHook = makeSetupHook { name = "hipcache-hook"; } ./setup-hook.sh;

  meta = {
    description = "Compile cache for AMD HIP that caches every GPU architecture on its own";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
    mainProgram = "hipcache";
  };
}
