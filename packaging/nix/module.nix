# NixOS: programs.hipcache.enable makes a store that the build users share, and puts it into the sandbox.
{ config, lib, pkgs, ... }:

let
  cfg = config.programs.hipcache;
in
{
  options.programs.hipcache = {
    enable = lib.mkEnableOption "hipcache, a compile cache for AMD HIP, for Nix's builds";
    directory = lib.mkOption {
      type = lib.types.path;
      default = "/var/cache/hipcache";
      description = "The store, which builds see at the same place.";
    };
    packageNames = lib.mkOption {
      type = lib.types.listOf lib.types.str;
      default = [ ];
      example = [ "rocprim" "rocsparse" ];
      description = "Packages of rocmPackages that are built through hipcache.";
    };
  };

  config = lib.mkIf cfg.enable {
    systemd.tmpfiles.rules = [ "d ${cfg.directory} 2770 root nixbld -" ];
    nix.settings.extra-sandbox-paths = [ cfg.directory ];
    nixpkgs.overlays = [
      (final: prev: {
        hipcache = final.callPackage ./package.nix { };
        rocmPackages = prev.rocmPackages.overrideScope (
          _: rocm:
          lib.genAttrs cfg.packageNames (
            name:
            rocm.${name}.overrideAttrs (old: {
              nativeBuildInputs = (old.nativeBuildInputs or [ ]) ++ [ final.hipcache final.hipcache.setupHook ];
              HIPCACHE_DIR = cfg.directory;
            })
          )
        );
      })
    ];
  };
}
