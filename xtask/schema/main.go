// Schema prints the facts of Kubernetes' types that the lab's API server stands on: crates/lab/api/src/schema/kubernetes.txt.
// A Go program, because the facts are the struct tags of k8s.io/api, which reflection reads exactly: a reader of Go's source
// and of generated.proto would be many times as long. List types, required fields and defaults come from the published OpenAPI
// documents of k8s.io/kubernetes.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"sort"
	"strings"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// kubernetes is the version of k8s.io/kubernetes, whose OpenAPI documents are read.
const kubernetes = "v1.36.2"

// versions are the groups and versions whose kinds are printed, with all that they are made of.
var versions = strings.Fields(`v1 apps/v1 batch/v1 autoscaling/v1 autoscaling/v2 networking.k8s.io/v1
	rbac.authorization.k8s.io/v1 storage.k8s.io/v1 policy/v1 coordination.k8s.io/v1 discovery.k8s.io/v1 events.k8s.io/v1
	scheduling.k8s.io/v1 certificates.k8s.io/v1 admissionregistration.k8s.io/v1 authentication.k8s.io/v1
	authorization.k8s.io/v1 apiextensions.k8s.io/v1 apiregistration.k8s.io/v1 node.k8s.io/v1
	flowcontrol.apiserver.k8s.io/v1 resource.k8s.io/v1`)

// special are the types that have a form of their own in JSON.
var special = map[string]string{
	"v1.Time": "time", "v1.MicroTime": "microtime", "v1.Duration": "duration", "resource.Quantity": "quantity",
	"intstr.IntOrString": "int-or-string", "runtime.RawExtension": "any", "v1.FieldsV1": "any", "v1.JSON": "any",
	"v1.JSONSchemaPropsOrBool": "any", "v1.JSONSchemaPropsOrArray": "any", "v1.JSONSchemaPropsOrStringArray": "any",
	"runtime.Object": "any",
}

type property struct {
	Ref      string              `json:"$ref"`
	AllOf    []property          `json:"allOf"`
	Items    *property           `json:"items"`
	Default  json.RawMessage     `json:"default"`
	ListType string              `json:"x-kubernetes-list-type"`
	ListKeys []string            `json:"x-kubernetes-list-map-keys"`
	MapType  string              `json:"x-kubernetes-map-type"`
	Required []string            `json:"required"`
	Fields   map[string]property `json:"properties"`
}

var (
	// root is the folder of the modules.
	root       string
	documented = map[string]property{}
	kinds      = map[reflect.Type][]string{}
	packages   = map[string]string{}
	printed    = map[string][]string{}
	enums      = map[string]map[string][]string{}
)

func main() {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	check(err)
	root = strings.TrimSpace(string(cache))
	read(filepath.Join(root, "k8s.io/kubernetes@"+kubernetes, "api/openapi-spec/v3"))
	info, _ := debug.ReadBuildInfo()
	head := "# k8s.io/kubernetes " + kubernetes
	for _, module := range info.Deps {
		if strings.HasPrefix(module.Path, "k8s.io/api") || module.Path == "k8s.io/kube-aggregator" {
			head = "# " + module.Path + " " + module.Version + "\n" + head
			sources[module.Path] = filepath.Join(root, module.Path+"@"+module.Version)
		}
	}
	check(extensions.AddToScheme(scheme.Scheme))
	check(aggregation.AddToScheme(scheme.Scheme))
	var known []schema.GroupVersionKind
	for kind := range scheme.Scheme.AllKnownTypes() {
		known = append(known, kind)
	}
	sort.Slice(known, func(i, j int) bool { return known[i].String() < known[j].String() })
	var roots []reflect.Type
	for _, kind := range known {
		it := scheme.Scheme.AllKnownTypes()[kind]
		isMeta := strings.HasSuffix(it.PkgPath(), "meta/v1") && it.Name() != "DeleteOptions"
		if !slices.Contains(versions, kind.GroupVersion().String()) || strings.HasSuffix(kind.Kind, "List") || isMeta {
			continue
		}
		if it.Name() != "DeleteOptions" || kind.Group == "" {
			kinds[it] = append(kinds[it], kind.GroupVersion().String()+"/"+kind.Kind)
			roots = append(roots, it)
		}
	}
	for _, it := range append(roots, reflect.TypeFor[meta.Status]()) {
		visit(it)
	}
	fmt.Println("# Facts of these modules, written by `make schema`; read by crates/lab/api/src/schema/text.rs:")
	fmt.Println(head)
	print()
}

func print() {
	for _, alias := range ordered(packages) {
		fmt.Println("package", alias, packages[alias])
	}
	for _, name := range ordered(printed) {
		fmt.Println(strings.Join(printed[name], "\n"))
	}
}

func ordered[T any](all map[string]T) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// read collects the schemas of all documents.
func read(folder string) {
	files, _ := filepath.Glob(filepath.Join(folder, "*_openapi.json"))
	if len(files) == 0 {
		log.Fatalf("%s is missing: go mod download k8s.io/kubernetes@%s", folder, kubernetes)
	}
	for _, file := range files {
		var document struct {
			Components struct{ Schemas map[string]property }
		}
		text, err := os.ReadFile(file)
		check(err)
		check(json.Unmarshal(text, &document))
		for name, schema := range document.Components.Schemas {
			documented[name] = schema
		}
	}
}

// visit prints a struct and all that it is made of. It returns the short name.
func visit(it reflect.Type) string {
	full := reflect.New(it).Interface().(interface{ OpenAPIModelName() string }).OpenAPIModelName()
	parts := strings.Split(full, ".")
	if len(parts) < 4 {
		log.Fatal(full)
	}
	alias := strings.Join(parts[len(parts)-3:len(parts)-1], ".")
	packages[alias] = strings.Join(parts[:len(parts)-1], ".")
	name := alias + "." + it.Name()
	if printed[name] != nil {
		return name
	}
	line := "type " + name
	if documented[full].MapType == "atomic" {
		line += " atomic"
	}
	if countsGenerations(parts[len(parts)-3], it.Name()) {
		line += " generation"
	}
	printed[name] = []string{strings.Join(append([]string{line}, kinds[it]...), " ")}
	printed[name] = append(printed[name], fields(it, "", documented[full])...)
	return name
}

// countsGenerations reports whether the strategy of a kind sets metadata.generation.
func countsGenerations(group, kind string) bool {
	folder := filepath.Join(root, "k8s.io/kubernetes@"+kubernetes, "pkg/registry", group)
	if group == "apiextensions" {
		folder = filepath.Join(sources["k8s.io/apiextensions-apiserver"], "pkg/registry")
	}
	text, err := os.ReadFile(filepath.Join(folder, strings.ToLower(kind), "strategy.go"))
	return err == nil && bytes.Contains(text, []byte("Generation = 1"))
}

func fields(it reflect.Type, within string, schema property) (lines []string) {
	for i := range it.NumField() {
		field := it.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		number := "0"
		if tags := strings.Split(field.Tag.Get("protobuf"), ","); len(tags) > 1 && within != "0." {
			number = within + tags[1]
		}
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			lines = append(lines, fields(field.Type, number+".", schema)...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		lines = append(lines, " "+line(field, name, number, options, schema))
	}
	return lines
}

func line(field reflect.StructField, name, number, options string, schema property) string {
	words := []string{name, number}
	it := field.Type
	isPointer := it.Kind() == reflect.Pointer
	if isPointer {
		it = it.Elem()
	}
	value := shape(it)
	words = append(words, value)
	mark := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	published := schema.Fields[name]
	mark(strings.Contains(options, "omitempty"), "?")
	mark(strings.Contains(options, "omitzero"), "0")
	mark(isPointer, "*")
	mark(slices.Contains(schema.Required, name), "!")
	if fallback := compact(published.Default); !slices.Contains([]string{"", "{}", `""`, "0", "false", "null"}, fallback) {
		words = append(words, "="+fallback)
	}
	switch published.ListType {
	case "set":
		words = append(words, "set")
	case "map":
		words = append(words, "map="+strings.Join(published.ListKeys, ","))
	}
	mark(published.MapType == "atomic", "atomic")
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		for _, word := range strings.Split(strategy, ",") {
			if key := field.Tag.Get("patchMergeKey"); word == "merge" && key != "" {
				word += "=" + key
			}
			words = append(words, word)
		}
	}
	if it.Name() != "" && it.Kind() != reflect.Struct && it.PkgPath() != "" {
		words = append(words, "go="+it.String())
	}
	if values := enum(it); len(values) > 0 {
		words = append(words, "enum="+strings.Join(values, ","))
	}
	return strings.Join(words, " ")
}

func compact(raw json.RawMessage) string {
	var text bytes.Buffer
	if raw != nil {
		check(json.Compact(&text, raw))
	}
	return text.String()
}

func shape(it reflect.Type) string {
	if word, is := special[it.String()]; is {
		return word
	}
	switch it.Kind() {
	case reflect.Pointer:
		return shape(it.Elem())
	case reflect.Struct:
		return visit(it)
	case reflect.Map:
		return "{" + shape(it.Elem())
	case reflect.Slice:
		if it.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[" + shape(it.Elem())
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return it.Kind().String()
	}
	log.Fatal("no shape for ", it)
	return ""
}

var sources = map[string]string{}

// enum returns the constants of a type that is marked `+enum`.
func enum(it reflect.Type) []string {
	if it.Kind() != reflect.String || it.PkgPath() == "" {
		return nil
	}
	if enums[it.PkgPath()] == nil {
		enums[it.PkgPath()] = constants(it.PkgPath())
	}
	return enums[it.PkgPath()][it.Name()]
}

func constants(path string) map[string][]string {
	found, marked := map[string][]string{}, map[string]bool{}
	for module, folder := range sources {
		rest, is := strings.CutPrefix(path, module+"/")
		if !is {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(folder, rest, "*types.go"))
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			check(err)
			for _, declaration := range file.Decls {
				if general, is := declaration.(*ast.GenDecl); is {
					collect(general, found, marked)
				}
			}
		}
	}
	for name, values := range found {
		sort.Strings(values)
		if !marked[name] {
			delete(found, name)
		}
	}
	return found
}

// collect adds the types and the typed constants of one declaration.
func collect(declaration *ast.GenDecl, found map[string][]string, marked map[string]bool) {
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			for _, comment := range comments(declaration.Doc) {
				marked[spec.Name.Name] = marked[spec.Name.Name] || strings.Contains(comment.Text, "+enum")
			}
		case *ast.ValueSpec:
			kind, _ := spec.Type.(*ast.Ident)
			for _, value := range spec.Values {
				if text, is := value.(*ast.BasicLit); is && kind != nil && text.Kind == token.STRING {
					found[kind.Name] = append(found[kind.Name], strings.Trim(text.Value, `"`))
				}
			}
		}
	}
}

func comments(group *ast.CommentGroup) []*ast.Comment {
	if group == nil {
		return nil
	}
	return group.List
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
