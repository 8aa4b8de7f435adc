# kube-reports: the PostgreSQL extension (PGXS) and the proxy.  "make help" prints this text.
#
# Goals:
#   all               the extension and the proxy
#   install           the extension by PGXS, the proxy under prefix; both below DESTDIR
#   installcheck      regression tests against a running server
#   up, down          start and stop a stack of one's own under .run; clean-run also deletes its data
#                     up writes .run/kubeconfig (kubectl), .run/env (psql as the owner) and
#                     .run/env.reader (psql as an analyst)
#   check             everything that must pass, on throw-away servers
#   check-clients     Kubernetes clients in Go and JavaScript against the proxy
#   check-oracle      the same requests to the proxy and to upstream's CRD server
#   check-pg16, -17, -18  the extension and the proxy with a PostgreSQL of that version
#   check-debian13    the extension, built and tested on a clean Debian 13
#   check-cluster     a real control plane, its aggregator and controllers with the proxy
#   check-sanitizers  the extension under UBSan and valgrind, the proxy under ASan and UBSan
#   check-chart       the Helm chart without a cluster
#   install-manifest  install.yaml, the chart as one file for kubectl apply
#   lint              gcc, clang-tidy (with warnings of clang), cppcheck and shellcheck; comments above forced plans
#   layers            includes against .ci/layers; where tables are created
#   format            format the sources; format-check only checks them
#   plain             the SQL variant as a script for the owner of a database, into sql/build/plain; see docs/managed.md
#   tle               the SQL variant for pg_tle, into sql/build/tle
#   check-variant-sql installs the SQL variant in each way on a server that has none of our files, and compares them
#   deb               Debian packages, into build/deb; check-deb installs, upgrades and purges them in a clean Debian
#   check-images      builds the images of helm/images on a clean Debian, and uses them
#   fuzz              build the fuzz targets; fuzz-run runs them with libFuzzer, fuzz-hours shows how long each has run
#   check-forward     forwarding, while sender, receiver and database are killed
#   check-evidence    evidence in an S3 bucket, with a server that verifies signatures
#   soak              writers, watchers and faults against a checker of histories
#   bench             benchmarks, each beside its baseline
#   bench-relief      what reports cost etcd and kube-apiserver, with and without the proxy
#   bench-peers       the proxy beside kube-apiserver with CRDs, kine and reports-server, in one table
#
# Variables:
#   VARIANT=c|sql     the extension in C (default), or in SQL alone
#   PG_CONFIG         pg_config of the PostgreSQL to build for
#   CC, CFLAGS, COPT  as in PGXS; PROXY_CFLAGS is for the proxy
#   WERROR=1          make warnings errors; make check and make lint set it
#   WITHOUT=proxy     all and install make the extension alone, where the proxy's libraries are missing
#   prefix, DESTDIR   where make install puts the proxy
#
# Variables of up (make up keeps what it succeeded with):
#   RUN_DIR           .run; down and clean-run take it too
#   PORT, METRICS_PORT, PG_PORT    8443, 9443, 15432
#   CLUSTER_NAME      local: what views, pages and webhooks call the cluster
#   CLUSTER_ID        its uid; made once
#   DATABASE          a connection string: a second proxy joins that database
#   PROXY_FLAGS       further flags for the proxy
#
# Goals that are scripts take further variables, named at the top of .ci/GOAL.

# The control file has the version.
EXTVERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" extension/kube_reports.control)
VARIANT ?= c
PG_CONFIG ?= pg_config

# What is built does not follow the caller's locale: in a Turkish one, I is no capital of i, and tolower() of awk
# keeps it.
export LC_ALL = C.UTF-8

# ---- goals that are scripts: they need no PostgreSQL to be installed yet, and call make themselves ----

SCRIPT_GOALS = help up down clean-run check check-variant-sql check-forward check-evidence check-clients check-oracle \
	check-pg16 check-pg17 check-pg18 check-sanitizers lint fuzz-run fuzz-hours format format-check soak bench deb \
	check-deb check-debian13 check-cluster bench-relief bench-peers check-chart install-manifest check-images

ifneq (,$(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)))

.PHONY: $(MAKECMDGOALS)
.NOTPARALLEL:

$(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)):
	@.ci/$(patsubst fuzz-hours,fuzz-run hours,$(@:check-pg%=check-pg %))

$(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS)):
	$(MAKE) $@

else

# ---- the extension ----

ifeq (,$(filter c sql,$(VARIANT)))
$(error VARIANT must be c or sql)
endif

# The document engine is plain C; the backend, the proxy and the fuzz targets share it.
ENGINE = $(wildcard extension/engine/*/*.c)

# WERROR=1, which the checks set, makes warnings errors: another compiler than theirs may warn of more.
WARNINGS = -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wmissing-prototypes $(if $(WERROR),-Werror)

# The built-in types; a type's number is its place in this list.
CURRENT_TYPES = policyreports.wgpolicyk8s.io clusterpolicyreports.wgpolicyk8s.io \
	reports.openreports.io clusterreports.openreports.io
INTERMEDIATE_TYPES = ephemeralreports.reports.kyverno.io clusterephemeralreports.reports.kyverno.io \
	admissionreports.kyverno.io clusteradmissionreports.kyverno.io \
	backgroundscanreports.kyverno.io clusterbackgroundscanreports.kyverno.io

# The install script is its parts in the order of sql/parts; update scripts are made of the same, see sql/migrations.
SCRIPT_BUILD = sql/build/$(VARIANT)
script_parts = $(addprefix sql/,$(shell awk -v variant=$(1) \
	'/^\#/ || !NF { next } $$1 == "c" || $$1 == "sql" { if ($$1 != variant) next; sub(/^[a-z]+/, "") } \
	{ print $$1 == "builtin" || $$1 == "dumped" || $$1 == "made" ? "build/" $$1 ".sql" : $$1 }' sql/parts))
SCRIPT_PARTS = $(call script_parts,$(VARIANT))
SQL_PARTS = $(call script_parts,sql)

# The releases that migrations lead from, newest first.
RELEASES := $(shell version='$(EXTVERSION)'; while set -- sql/migrations/*--"$$version".sql; [ -e "$$1" ]; do \
	version=$$(basename "$${1%--*}"); echo "$$version"; done)

DATA_built = $(SCRIPT_BUILD)/kube_reports--$(EXTVERSION).sql \
	$(RELEASES:%=$(SCRIPT_BUILD)/kube_reports--%--$(EXTVERSION).sql)

REGRESS_OPTS = --inputdir=regress --load-extension=kube_reports
ISOLATION_OPTS = --inputdir=regress --outputdir=. --load-extension=kube_reports
EXTRA_CLEAN = build extension/build sql/build proxy/build regress/fuzz/build regress/bench/build

ifeq ($(VARIANT),c)
EXTENSION = extension/kube_reports
# The module's name has the version: databases that are not updated yet go on with the one of theirs.
MODULE_big = kube_reports-$(EXTVERSION)
OBJS = $(patsubst extension/%.c,extension/build/%.o,$(wildcard extension/*.c) $(ENGINE))
REGRESS = $(sort $(notdir $(basename $(wildcard regress/sql/*.sql))))
ISOLATION = $(sort $(notdir $(basename $(wildcard regress/specs/*.spec))))
# PostgreSQL's headers are system headers: our warnings are about our own code.
PG_CPPFLAGS = -Iextension -isystem $(shell $(PG_CONFIG) --includedir-server) -DKUBE_REPORTS_VERSION=$(EXTVERSION)
# Nothing is exported but what PostgreSQL looks up: modules share one space of names.
PG_CFLAGS = $(WARNINGS) -Wno-declaration-after-statement -fvisibility=hidden
# The server exports all its functions: ours must not be bound to a namesake there.
SHLIB_LINK = -Wl,-Bsymbolic -lpcre2-8
else
EXTENSION = $(SCRIPT_BUILD)/kube_reports
REGRESS = $(shell grep -v '^\#' regress/sql_variant_tests)
endif

# No bitcode: nothing here is worth inlining into a query.
override with_llvm := no

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq (,$(wildcard $(PGXS)))
$(error $(PG_CONFIG) --pgxs names no file: install the server's development package, or see .ci/packages)
endif
# The caller's prefix is the proxy's; from PostgreSQL 18 on PGXS would put the extension there as well.
PROXY_PREFIX := $(if $(filter undefined,$(origin prefix)),/usr/local,$(prefix))
override prefix :=
.DEFAULT_GOAL := all
include $(PGXS)

# ---- rebuild when the server's version or the flags change ----

EXTENSION_FLAGS = $(VERSION_NUM) $(CC) $(CFLAGS) $(CPPFLAGS)

.PHONY: always
extension/build/flags: always
	@mkdir -p $(@D)
	@echo '$(EXTENSION_FLAGS)' | cmp -s - $@ || echo '$(EXTENSION_FLAGS)' >$@

extension/build/%.o: extension/%.c extension/build/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

-include $(OBJS:.o=.d)

# ---- the module with UBSan in it: regress/sql_fuzz puts it into the place of the other ----

SANITIZED = extension/build/sanitized
# Overflow is to be found, and PostgreSQL's flags would define it.
SANITIZED_COMPILE = $(CC) $(CFLAGS) -O1 -fno-wrapv -fsanitize=undefined -fno-sanitize-recover=undefined $(CPPFLAGS)

.PHONY: sanitized-module
sanitized-module: $(SANITIZED)/$(MODULE_big).so

$(SANITIZED)/flags: always
	@mkdir -p $(@D)
	@echo '$(SANITIZED_COMPILE)' | cmp -s - $@ || echo '$(SANITIZED_COMPILE)' >$@

$(SANITIZED)/%.o: extension/%.c $(SANITIZED)/flags
	@mkdir -p $(@D)
	$(SANITIZED_COMPILE) -MMD -MP -c -o $@ $<

SANITIZED_OBJS = $(patsubst extension/build/%,$(SANITIZED)/%,$(OBJS))
$(SANITIZED)/$(MODULE_big).so: $(SANITIZED_OBJS)
	$(CC) -shared -fsanitize=undefined -o $@ $^ $(SHLIB_LINK)

-include $(SANITIZED_OBJS:.o=.d)

# ---- the install script and the update scripts ----

# The version that functions of the script give, and the name of the module.
NAME_VERSION = sed -e 's,SCRIPT_VERSION,$(EXTVERSION),'
# Not module_pathname in the control file, which has one line for all versions.
NAME_MODULE = $(NAME_VERSION) -e 's,MODULE_PATHNAME,$$libdir/kube_reports-$(EXTVERSION),'

sql/build/builtin.sql: $(patsubst %,sql/crds/%.json,$(CURRENT_TYPES) $(INTERMEDIATE_TYPES)) Makefile
	@mkdir -p $(@D)
	{ \
		echo 'CREATE FUNCTION kube_reports_internal.builtin_types()'; \
		echo '	RETURNS TABLE (id integer, results text, crd text)'; \
		echo 'LANGUAGE sql IMMUTABLE'; \
		echo 'SET search_path = pg_catalog, pg_temp'; \
		echo 'AS $$types$$'; \
		number=0; results=current; separator='	VALUES'; \
		for type in $(CURRENT_TYPES) : $(INTERMEDIATE_TYPES); do \
			if [ $$type = : ]; then results=intermediate; continue; fi; \
			number=$$((number + 1)); \
			printf "%s (%d, '%s', \$$crd\$$" "$$separator" $$number $$results; \
			cat sql/crds/$$type.json; \
			printf '$$crd$$)'; \
			separator=,; \
		done; \
		echo; \
		echo '$$types$$;'; \
		echo 'COMMENT ON FUNCTION kube_reports_internal.builtin_types()'; \
		echo "	IS 'the types that this version serves of itself';"; \
		echo; \
		echo 'SELECT kube_reports_internal.store_type(b.id, b.crd::kube_reports.report, b.results, true)'; \
		echo '	FROM kube_reports_internal.builtin_types() b ORDER BY b.id;'; \
	} >$@.new && mv $@.new $@

sql/build/made.sql: $(filter-out sql/build/%,$(SQL_PARTS)) sql/script/made_parts.awk
	@mkdir -p $(@D)
	awk -f sql/script/made_parts.awk $(filter-out sql/build/%,$(SQL_PARTS)) >$@.new && mv $@.new $@

sql/build/dumped.sql: $(filter-out sql/build/%,$(SQL_PARTS)) Makefile
	@mkdir -p $(@D)
	{ \
		echo 'CREATE FUNCTION kube_reports_internal.dumped_relations()'; \
		echo '	RETURNS TABLE (relation regclass, condition text)'; \
		echo 'LANGUAGE sql STABLE'; \
		echo 'SET search_path = pg_catalog, pg_temp'; \
		echo 'AS $$$$'; \
		echo '	SELECT d.relation::regclass, d.condition FROM (VALUES'; \
		sed -n "s/^SELECT pg_catalog\.pg_extension_config_dump(\('[^']*'\), \('[^']*'\));/		(\1, \2),/p" \
			$(filter-out sql/build/%,$(SQL_PARTS)) | sed '$$s/,$$//'; \
		echo '	) d(relation, condition)'; \
		echo '	UNION ALL'; \
		echo "	SELECT i.inhrelid::regclass, '' FROM pg_inherits i"; \
		echo "		WHERE i.inhparent = 'kube_reports_internal.report_change'::regclass"; \
		echo '$$$$;'; \
		echo "COMMENT ON FUNCTION kube_reports_internal.dumped_relations()"; \
		echo "	IS 'the tables and sequences whose rows a dump has to hold, all or those of a condition; '"; \
		echo "		'also the months of history';"; \
		echo; \
	} >$@.new && mv $@.new $@

$(SCRIPT_BUILD)/kube_reports--$(EXTVERSION).sql: $(SCRIPT_PARTS) sql/parts Makefile
	@mkdir -p $(@D)
	$(NAME_MODULE) $(SCRIPT_PARTS) >$@.new && mv $@.new $@

$(SCRIPT_BUILD)/kube_reports--%--$(EXTVERSION).sql: $(SCRIPT_PARTS) sql/script/update_script \
		$(wildcard sql/script/update_* sql/migrations/*) Makefile
	@mkdir -p $(@D)
	sql/script/update_script $* $(EXTVERSION) $(SCRIPT_PARTS) >$@.new && $(NAME_MODULE) $@.new >$@.named && \
		rm $@.new && mv $@.named $@

sql/build/sql/kube_reports.control: extension/kube_reports.control
	@mkdir -p $(@D)
	sed -e 's/^trusted.*/superuser = false/' $< >$@

# ---- the SQL variant for servers that have no file of ours: the plain script, and pg_tle ----

UPDATE_SCRIPT_SOURCES = $(SQL_PARTS) sql/script/update_script sql/script/plain_guarded.sql \
	$(wildcard sql/script/*update* sql/migrations/*) Makefile

.PHONY: plain tle
plain: $(addprefix sql/build/plain/kube_reports--,install.sql uninstall.sql $(RELEASES:%=update--%--$(EXTVERSION).sql))
tle: sql/build/tle/kube_reports--tle.sql

sql/build/plain/kube_reports--install.sql: $(SQL_PARTS) $(wildcard sql/script/plain_*) sql/parts Makefile
	@mkdir -p $(@D)
	sql/script/plain_script $(SQL_PARTS) >$@.new && $(NAME_VERSION) $@.new >$@.named && rm $@.new && mv $@.named $@

sql/build/plain/kube_reports--uninstall.sql: sql/script/plain_uninstall.sql
	@mkdir -p $(@D)
	cp $< $@

sql/build/plain/kube_reports--update--%--$(EXTVERSION).sql: $(UPDATE_SCRIPT_SOURCES)
	@mkdir -p $(@D)
	PLAIN=1 sql/script/update_script $* $(EXTVERSION) $(SQL_PARTS) >$@.new && $(NAME_VERSION) $@.new >$@.named && \
		rm $@.new && mv $@.named $@

sql/build/tle/install.sql: $(SQL_PARTS) sql/parts Makefile
	@mkdir -p $(@D)
	$(NAME_VERSION) $(SQL_PARTS) >$@.new && mv $@.new $@

sql/build/tle/update--%.sql: $(UPDATE_SCRIPT_SOURCES)
	@mkdir -p $(@D)
	sql/script/update_script $* $(EXTVERSION) $(SQL_PARTS) >$@.new && $(NAME_VERSION) $@.new >$@.named && \
		rm $@.new && mv $@.named $@

sql/build/tle/kube_reports--tle.sql: sql/build/tle/install.sql $(RELEASES:%=sql/build/tle/update--%.sql) \
		sql/script/tle_script
	sql/script/tle_script $(EXTVERSION) "$$(sed -n "s/^comment = '\(.*\)'/\1/p" extension/kube_reports.control)" \
		$< $(foreach release,$(RELEASES),$(release) sql/build/tle/update--$(release).sql) >$@.new && mv $@.new $@

# ---- the proxy, and programs beside it ----

# Each program beside the proxy is a room with a main() of its own.
# kube-reports-NAME comes from proxy/NAME, and from the rooms of the proxy that its files include.
# PACKAGES_NAME: its libraries, as pkg-config knows them.  OBJS_NAME: objects of generated files.
PROGRAMS = grpc evidence
PACKAGES_grpc = libh2o-evloop libpq openssl jansson zlib liblz4 libnghttp2 libprotobuf-c
OBJS_grpc = $(patsubst %,proxy/build/proto/%.pb-c.o,forward compliance wire)
PACKAGES_evidence = libmicrohttpd gnutls libcurl libpq openssl jansson
PROGRAM_FILES = $(PROGRAMS:%=proxy/build/kube-reports-%)

PROXY = proxy/build/kube-reports-proxy
PROXY_CFLAGS ?= -O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=2
PROXY_PACKAGES = libh2o-evloop libpq openssl libcurl jansson yaml-0.1 zlib liblz4
PROXY_COMPILE = $(CC) $(WARNINGS) $(PROXY_CFLAGS) -Iproxy -Iextension -D_GNU_SOURCE -DARENA_THREADS -DH2O_USE_LIBUV=0 \
	-DKUBE_REPORTS_VERSION='"$(EXTVERSION)"' \
	$(shell pkg-config --cflags-only-I $(PROXY_PACKAGES) $(foreach name,$(PROGRAMS),$(PACKAGES_$(name))))
PROXY_OBJS = $(patsubst proxy/%.c,proxy/build/%.o,$(wildcard proxy/*.c) \
	$(filter-out proxy/build/% $(PROGRAMS:%=proxy/%/%),$(wildcard proxy/*/*.c)))
ENGINE_OBJS = $(patsubst extension/%.c,proxy/build/%.o,$(ENGINE))

PROGRAM_OBJS = $(patsubst proxy/%.c,proxy/build/%.o,$(wildcard $(PROGRAMS:%=proxy/%/*.c)))

ifneq ($(WITHOUT),proxy)
all: $(PROXY) $(PROGRAM_FILES)
install: install-proxy
uninstall: uninstall-proxy
endif

proxy/build/flags: always
	@mkdir -p $(@D)
	@echo "$(subst ",,$(PROXY_COMPILE))" | cmp -s - $@ || echo "$(subst ",,$(PROXY_COMPILE))" >$@

proxy/build/%.o: proxy/%.c proxy/build/flags
	@mkdir -p $(@D)
	$(PROXY_COMPILE) -MMD -MP -c -o $@ $<

proxy/build/engine/%.o: extension/engine/%.c proxy/build/flags
	@mkdir -p $(@D)
	$(PROXY_COMPILE) -MMD -MP -c -o $@ $<

proxy/build/engine.a: $(ENGINE_OBJS)
	rm -f $@
	$(AR) rcs $@ $^

$(PROXY): $(PROXY_OBJS) proxy/build/engine.a
	$(CC) $(PROXY_CFLAGS) -o $@ $^ -Wl,--as-needed $(shell pkg-config --libs $(PROXY_PACKAGES)) -lpcre2-8 -lm

# The rooms of the proxy, for the programs beside it.
proxy/build/rooms.a: $(filter-out proxy/build/main.o,$(PROXY_OBJS))
	rm -f $@
	$(AR) rcs $@ $^

define program_rule
proxy/build/kube-reports-$(1): $(patsubst proxy/%.c,proxy/build/%.o,$(wildcard proxy/$(1)/*.c)) \
		$(OBJS_$(1)) proxy/build/rooms.a proxy/build/engine.a
	$$(CC) $$(PROXY_CFLAGS) -o $$@ $$^ -Wl,--as-needed $$(shell pkg-config --libs $(PACKAGES_$(1))) -lpcre2-8 -lm
endef
$(foreach name,$(PROGRAMS),$(eval $(call program_rule,$(name))))

# The messages of kube-reports-grpc.  libprotobuf-c ends texts at a NUL, and does not check that they are UTF-8.
# So in C texts are fields of bytes, and maps are what they are on the wire: repeated messages.
proxy/build/proto/%.proto: docs/proto/%.proto
	@mkdir -p $(@D)
	sed -E -e 's/^( *)map<string, string> /\1repeated Pair /' -e 's/^( *(repeated )?)string /\1bytes /' $< >$@
	echo 'message Pair { bytes key = 1; bytes value = 2; }' >>$@

proxy/build/proto/%.proto: proxy/grpc/%.proto
	@mkdir -p $(@D)
	cp $< $@

proxy/build/proto/%.pb-c.c proxy/build/proto/%.pb-c.h: proxy/build/proto/%.proto
	protoc-c --proto_path=$(@D) --c_out=$(@D) $<

proxy/build/proto/%.o: proxy/build/proto/%.c proxy/build/flags
	$(PROXY_COMPILE) -MMD -MP -c -o $@ $<

proxy/build/grpc/%.o: private PROXY_COMPILE += -Iproxy/build/proto
$(patsubst proxy/%.c,proxy/build/%.o,$(wildcard proxy/grpc/*.c)): $(OBJS_grpc:.o=.h)

-include $(PROXY_OBJS:.o=.d) $(PROGRAM_OBJS:.o=.d) $(OBJS_grpc:.o=.d) $(ENGINE_OBJS:.o=.d)

.PHONY: install-proxy uninstall-proxy
install-proxy: $(PROXY) $(PROGRAM_FILES)
	$(MKDIR_P) '$(DESTDIR)$(PROXY_PREFIX)/bin'
	$(INSTALL_PROGRAM) $^ '$(DESTDIR)$(PROXY_PREFIX)/bin/'

uninstall-proxy:
	rm -f $(foreach file,$(PROXY) $(PROGRAM_FILES),'$(DESTDIR)$(PROXY_PREFIX)/bin/$(notdir $(file))')

# ---- fuzz targets: replay.c runs each over its corpus, under sanitizers ----

FUZZ_CFLAGS = -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FUZZ_BUILD = regress/fuzz/build
# What has main(): replay.c, unless libFuzzer does (.ci/fuzz-run).
FUZZ_MAIN = $(FUZZ_BUILD)/replay.o
FUZZ_PROGRAMS = $(patsubst regress/fuzz/%.c,$(FUZZ_BUILD)/%,$(wildcard regress/fuzz/*_fuzz.c))
FUZZ_ENGINE = $(patsubst extension/%.c,$(FUZZ_BUILD)/%.o,$(ENGINE))
FUZZ_COMPILE = $(CC) $(WARNINGS) $(FUZZ_CFLAGS) -D_GNU_SOURCE -Iextension -Iproxy -Iproxy/build/proto \
	$(shell pkg-config --cflags-only-I libpq)
FUZZ_MESSAGES = $(patsubst %,$(FUZZ_BUILD)/%.pb-c.o,forward compliance)

.PHONY: fuzz
fuzz: $(FUZZ_PROGRAMS)

$(FUZZ_BUILD)/flags: always
	@mkdir -p $(@D)
	@echo '$(FUZZ_COMPILE)' | cmp -s - $@ || echo '$(FUZZ_COMPILE)' >$@

$(FUZZ_BUILD)/engine/%.o: extension/engine/%.c $(FUZZ_BUILD)/flags
	@mkdir -p $(@D)
	$(FUZZ_COMPILE) -MMD -MP -c -o $@ $<

$(FUZZ_BUILD)/%.o: regress/fuzz/%.c $(FUZZ_BUILD)/flags
	$(FUZZ_COMPILE) -MMD -MP -c -o $@ $<

$(FUZZ_BUILD)/%.pb-c.o: proxy/build/proto/%.pb-c.c $(FUZZ_BUILD)/flags
	$(FUZZ_COMPILE) -MMD -MP -c -o $@ $<

$(FUZZ_BUILD)/message_fuzz.o: $(patsubst $(FUZZ_BUILD)/%.o,proxy/build/proto/%.h,$(FUZZ_MESSAGES))
$(FUZZ_BUILD)/message_fuzz: $(FUZZ_MESSAGES)

$(FUZZ_BUILD)/engine.a: $(FUZZ_ENGINE)
	rm -f $@
	ar rcs $@ $^

# The map names the members of the archive that the target uses: .ci/fuzz-run tells its sources by it.
$(FUZZ_BUILD)/%_fuzz: $(FUZZ_BUILD)/%_fuzz.o $(FUZZ_BUILD)/limits.o $(FUZZ_MAIN) $(FUZZ_BUILD)/engine.a
	$(CC) $(FUZZ_CFLAGS) $(FUZZ_LDFLAGS) -o $@ $^ -Wl,-Map=$@.map -Wl,--wrap=LLVMFuzzerTestOneInput -Wl,--as-needed \
		-lpcre2-8 -ljansson -lyaml -lz -llz4 -lssl -lcrypto -lprotobuf-c -lm

.SECONDARY:
-include $(wildcard $(FUZZ_BUILD)/*.d) $(FUZZ_ENGINE:.o=.d)

# ---- benchmark programs ----

BENCH_PROGRAMS = $(addprefix regress/bench/build/,static_server load watchers slow_flush.so)

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS)

regress/bench/build/static_server: regress/bench/static_server.c
	@mkdir -p $(@D)
	$(CC) $(WARNINGS) $(PROXY_CFLAGS) -D_GNU_SOURCE -DH2O_USE_LIBUV=0 -o $@ $< \
		$(shell pkg-config --cflags --libs libh2o-evloop openssl)

regress/bench/build/load regress/bench/build/watchers: regress/bench/build/%: regress/bench/%.c
	@mkdir -p $(@D)
	$(CC) $(WARNINGS) $(PROXY_CFLAGS) -D_GNU_SOURCE -o $@ $< $(shell pkg-config --cflags --libs openssl) -lpthread

regress/bench/build/slow_flush.so: regress/bench/slow_flush.c
	@mkdir -p $(@D)
	$(CC) $(WARNINGS) $(PROXY_CFLAGS) -D_GNU_SOURCE -fPIC -shared -o $@ $< -ldl

# ---- layers: includes go downward only; .ci/layers says what that means ----

.PHONY: layers
layers:
	@.ci/check-layers

endif
