package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"oneeffect/infra/check/agree"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// manifests renders the overlays and holds every object to the schema of its kind.
func (r *report) manifests(ctx context.Context, _ io.Writer) error {
	folder, err := schemas(ctx, r.cache)
	if err != nil {
		return err
	}
	tree, err := agree.Read(r.root)
	if err != nil {
		return err
	}
	for _, overlay := range agree.Overlays {
		rendered, err := render(tree, overlay)
		if err != nil {
			r.problem(overlay, "%v", err)
			continue
		}
		if err := r.valid(overlay, rendered, folder); err != nil {
			return err
		}
	}
	return filepath.WalkDir(filepath.Join(r.root, "infra", "k8s"), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".yaml" {
			r.file(r.relative(name))
		}
		return err
	})
}

// render builds an overlay from the tree, and from nothing else.
func render(tree agree.Tree, overlay string) ([]byte, error) {
	disk := filesys.MakeFsInMemory()
	for name, content := range tree {
		if strings.HasPrefix(name, "infra/") {
			if err := disk.WriteFile("/"+name, []byte(content)); err != nil {
				return nil, err
			}
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/"+overlay)
	if err != nil {
		return nil, fmt.Errorf("kustomize: %w", err)
	}
	return built.AsYaml()
}

func (r *report) valid(overlay string, rendered []byte, schemas string) error {
	conform, err := validator.New([]string{schemas + "/{{ .ResourceKind }}{{ .KindSuffix }}.json"}, validator.Opts{Strict: true})
	if err != nil {
		return err
	}
	objects := 0
	for _, result := range conform.Validate(overlay, io.NopCloser(bytes.NewReader(rendered))) {
		if result.Status == validator.Empty {
			continue
		}
		objects++
		if result.Status == validator.Valid {
			continue
		}
		signature, err := result.Resource.Signature()
		if err != nil {
			return err
		}
		r.problem(overlay, "%s %s: %v", signature.Kind, signature.Name, result.Err)
	}
	if objects == 0 {
		return fmt.Errorf("%s renders to nothing", overlay)
	}
	return nil
}
