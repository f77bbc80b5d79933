BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE attempts (
	id INTEGER NOT NULL, 
	chain_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	job_id BIGINT NOT NULL, 
	submitted VARCHAR(27) NOT NULL, 
	ended VARCHAR(27), 
	document TEXT NOT NULL, 
	CONSTRAINT pk_attempts PRIMARY KEY (id), 
	CONSTRAINT uq_attempts_chain_id_number UNIQUE (chain_id, number), 
	CONSTRAINT uq_attempts_chain_id_cluster_job_id_submitted UNIQUE (chain_id, cluster, job_id, submitted), 
	CONSTRAINT fk_attempts_chain_id FOREIGN KEY(chain_id) REFERENCES chains (id)
);
INSERT INTO "attempts" VALUES(1,1,1,'alpha',7,'2026-03-04T05:06:07.000890Z','2026-03-04T05:06:07.000890Z','{"commit":"","ended":"2026-03-04T05:06:07.000890Z","job":{"account":"","array_job_id":null,"array_limit":null,"array_task":null,"attempt":{"cluster":"alpha","job_id":7,"submitted":"2026-03-04T05:06:07.000890Z"},"cancelled_by":null,"command":"","comment":"","cpus":null,"dependency":"","derived_exit":null,"directory":"","end":null,"exit":null,"failed_node":null,"gpus":null,"het_job_id":null,"name":"","nodes":[],"partition":"","preempted_at":null,"priority":null,"qos":"","raw_state":"","reason":"","requeue":null,"restarts":null,"shown_id":"7","source":"squeue","start":null,"state":"RUNNING","stderr":"","stdout":"","steps":[],"submit_line":"","suspended_for":null,"time_limit":null,"user":""},"number":1,"ours":true,"resumed_from":null,"saved_after":null,"saved_before":null,"script_digest":"","step_after":null,"step_before":null,"verdict":{"advice":"","assumed":false,"cause":"preemption","confidence":1.0,"culprit_nodes":["n1"],"evidence":[],"fingerprint":"","outcome":"preempted","retry":"yes","root_line":null,"ruled_out":[],"sentence":"was preempted","weaker":[]}}');
INSERT INTO "attempts" VALUES(2,1,2,'alpha',8,'2026-03-04T05:06:07.000890Z',NULL,'{"commit":"","ended":null,"job":{"account":"","array_job_id":null,"array_limit":null,"array_task":null,"attempt":{"cluster":"alpha","job_id":8,"submitted":"2026-03-04T05:06:07.000890Z"},"cancelled_by":null,"command":"","comment":"","cpus":null,"dependency":"","derived_exit":null,"directory":"","end":null,"exit":null,"failed_node":null,"gpus":null,"het_job_id":null,"name":"","nodes":[],"partition":"","preempted_at":null,"priority":null,"qos":"","raw_state":"","reason":"","requeue":null,"restarts":null,"shown_id":"8","source":"squeue","start":null,"state":"RUNNING","stderr":"","stdout":"","steps":[],"submit_line":"","suspended_for":null,"time_limit":null,"user":""},"number":2,"ours":true,"resumed_from":null,"saved_after":null,"saved_before":null,"script_digest":"","step_after":null,"step_before":null,"verdict":null}');
CREATE TABLE chains (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	archived BOOLEAN NOT NULL, 
	cluster TEXT NOT NULL, 
	origin VARCHAR(32) NOT NULL, 
	mode VARCHAR(32) NOT NULL, 
	settings TEXT NOT NULL, 
	created VARCHAR(27) NOT NULL, 
	desired VARCHAR(32) NOT NULL, 
	desired_at VARCHAR(27), 
	desired_until VARCHAR(27), 
	desired_why TEXT NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	state_since VARCHAR(27), 
	sentence TEXT NOT NULL, 
	wait_until VARCHAR(27), 
	step BIGINT, 
	saved_step BIGINT, 
	target BIGINT, 
	retried_at VARCHAR(27), 
	environment TEXT NOT NULL, 
	script_digest TEXT NOT NULL, 
	pinned_script TEXT NOT NULL, 
	grace_until VARCHAR(27), 
	facts TEXT NOT NULL, 
	CONSTRAINT pk_chains PRIMARY KEY (id), 
	CONSTRAINT uq_chains_name UNIQUE (name)
);
INSERT INTO "chains" VALUES(1,'llama',0,'alpha','config','act','{"batch":"train.sh","done":{"step":1000}}','2026-03-04T05:06:07.000890Z','run',NULL,NULL,'','new',NULL,'',NULL,120,100,NULL,NULL,'{"PATH":"/bin"}','','""',NULL,'{"absent":1}');
CREATE TABLE counters (
	name VARCHAR(200) NOT NULL, 
	labels TEXT NOT NULL, 
	value FLOAT NOT NULL, 
	CONSTRAINT pk_counters PRIMARY KEY (name, labels)
);
INSERT INTO "counters" VALUES('submissions','{"chain":"llama"}',1.0);
CREATE TABLE decisions (
	id INTEGER NOT NULL, 
	chain_id INTEGER NOT NULL, 
	number INTEGER, 
	at VARCHAR(27) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	sentence TEXT NOT NULL, 
	document TEXT NOT NULL, 
	CONSTRAINT pk_decisions PRIMARY KEY (id), 
	CONSTRAINT fk_decisions_chain_id FOREIGN KEY(chain_id) REFERENCES chains (id)
);
INSERT INTO "decisions" VALUES(1,1,1,'2026-03-04T05:06:07.000890Z','resubmit','resubmits from step 100','{"exclude":[],"extra":[],"resume":{"checkpoint":["/ckpt/step100",100,"deepspeed","intact","all files whole",[],[],false,0.0,0]},"set_aside":[],"why":"preempted"}');
CREATE TABLE evidence (
	attempt_id INTEGER NOT NULL, 
	document TEXT NOT NULL, 
	CONSTRAINT pk_evidence PRIMARY KEY (attempt_id), 
	CONSTRAINT fk_evidence_attempt_id FOREIGN KEY(attempt_id) REFERENCES attempts (id)
);
INSERT INTO "evidence" VALUES(1,'{"chain_user":"","checkpoints":["/ckpt","deepspeed",[["/ckpt/step100",100,"deepspeed","intact","all files whole",[],[],false,0.0,0]],["/ckpt/step100",100,"deepspeed","intact","all files whole",[],[],false,0.0,0],null],"completion":{"configured":false,"contradicting":[],"proof":"unknown","proving":[],"rules":[]},"end_records":[],"ended_by_us":"","first_seen_step":null,"job":{"account":"","array_job_id":null,"array_limit":null,"array_task":null,"attempt":{"cluster":"alpha","job_id":7,"submitted":"2026-03-04T05:06:07.000890Z"},"cancelled_by":null,"command":"","comment":"","cpus":null,"dependency":"","derived_exit":null,"directory":"","end":null,"exit":null,"failed_node":null,"gpus":null,"het_job_id":null,"name":"","nodes":[],"partition":"","preempted_at":null,"priority":null,"qos":"","raw_state":"","reason":"","requeue":null,"restarts":null,"shown_id":"7","source":"squeue","start":null,"state":"RUNNING","stderr":"","stdout":"","steps":[],"submit_line":"","suspended_for":null,"time_limit":null,"user":""},"logs":{"bytes_read":0,"files":[],"findings":[{"advice":"","at":null,"cause":"preemption","effect":false,"extracted":{"job":"7"},"node":null,"order":5,"rank":null,"retry":null,"signature":"slurm/preempted","specificity":90,"startup":false,"survived":0,"where":{"line":5,"offset":null,"source":"train.log","text":"slurmstepd: error: *** JOB 7 CANCELLED DUE TO PREEMPTION ***"}}],"loss":null,"problem":"","readable":true,"signalled":[],"step":null,"tail":[{"line":5,"offset":null,"source":"train.log","text":"slurmstepd: error: *** JOB 7 CANCELLED DUE TO PREEMPTION ***"}],"total":null,"unread":0},"nodes":[],"progress":{"at":null,"loss":null,"rate":null,"saved_step":null,"source":"","step":null,"target":null},"resumed_from":null,"sources":[],"user_uid":null}');
CREATE TABLE excluded_nodes (
	id INTEGER NOT NULL, 
	node VARCHAR(255) NOT NULL, 
	chain_id INTEGER, 
	why TEXT NOT NULL, 
	since VARCHAR(27) NOT NULL, 
	until VARCHAR(27) NOT NULL, 
	CONSTRAINT pk_excluded_nodes PRIMARY KEY (id), 
	CONSTRAINT fk_excluded_nodes_chain_id FOREIGN KEY(chain_id) REFERENCES chains (id)
);
INSERT INTO "excluded_nodes" VALUES(1,'n1',1,'Xid 79','2026-03-04T05:06:07.000890Z','2026-03-04T05:07:07.000890Z');
CREATE TABLE intents (
	id INTEGER NOT NULL, 
	chain_id INTEGER NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	token VARCHAR(200) NOT NULL, 
	created VARCHAR(27) NOT NULL, 
	payload TEXT NOT NULL, 
	status VARCHAR(32) NOT NULL, 
	epoch INTEGER NOT NULL, 
	tried_at VARCHAR(27), 
	absent_rounds INTEGER NOT NULL, 
	absent_at VARCHAR(27), 
	job_id BIGINT, 
	closed VARCHAR(27), 
	note TEXT NOT NULL, 
	CONSTRAINT pk_intents PRIMARY KEY (id), 
	CONSTRAINT fk_intents_chain_id FOREIGN KEY(chain_id) REFERENCES chains (id), 
	CONSTRAINT uq_intents_token UNIQUE (token)
);
INSERT INTO "intents" VALUES(1,1,'submit','t1','2026-03-04T05:06:07.000890Z','{"argv":["sbatch","train.sh"]}','done',1,'2026-03-04T05:06:07.000890Z',0,NULL,8,'2026-03-04T05:06:07.000890Z','');
CREATE TABLE leases (
	id INTEGER NOT NULL, 
	holder TEXT NOT NULL, 
	epoch INTEGER NOT NULL, 
	until VARCHAR(27), 
	kernel VARCHAR(128) NOT NULL, 
	started VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (id)
);
INSERT INTO "leases" VALUES(1,'',1,'2026-03-04T05:07:07.000890Z','9aa8a884-6ca1-4bb5-8bcf-7d00d4047c10/pid:[4026531836]','9');
CREATE TABLE memory (
	"key" VARCHAR(200) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_memory PRIMARY KEY ("key")
);
INSERT INTO "memory" VALUES('last_poll','{"at":5}');
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('instance','d8b51869-68fc-4c6a-a116-5d12e0e448cf');
CREATE TABLE moves (
	id INTEGER NOT NULL, 
	chain_id INTEGER, 
	kind VARCHAR(32) NOT NULL, 
	path TEXT NOT NULL, 
	target TEXT NOT NULL, 
	"before" TEXT NOT NULL, 
	at VARCHAR(27) NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	changed VARCHAR(27) NOT NULL, 
	why TEXT NOT NULL, 
	CONSTRAINT pk_moves PRIMARY KEY (id), 
	CONSTRAINT fk_moves_chain_id FOREIGN KEY(chain_id) REFERENCES chains (id)
);
INSERT INTO "moves" VALUES(1,1,'set_aside','"/ckpt/step120"','"/ckpt/.aside/step120"','""','2026-03-04T05:06:07.000890Z','planned','2026-03-04T05:06:07.000890Z','truncated');
CREATE TABLE notices (
	id INTEGER NOT NULL, 
	chain_id INTEGER, 
	"key" TEXT NOT NULL, 
	severity VARCHAR(32) NOT NULL, 
	title TEXT NOT NULL, 
	body TEXT NOT NULL, 
	created VARCHAR(27) NOT NULL, 
	delivered VARCHAR(27), 
	recovered VARCHAR(27), 
	tries INTEGER NOT NULL, 
	next_try VARCHAR(27), 
	last_error TEXT NOT NULL, 
	CONSTRAINT pk_notices PRIMARY KEY (id), 
	CONSTRAINT fk_notices_chain_id FOREIGN KEY(chain_id) REFERENCES chains (id)
);
INSERT INTO "notices" VALUES(1,1,'llama:preempted','info','preempted','{"what":"preempted"}','2026-03-04T05:06:07.000890Z',NULL,NULL,0,NULL,'');
CREATE INDEX ix_attempts_chain_id ON attempts (chain_id);
CREATE INDEX ix_decisions_chain_id ON decisions (chain_id);
CREATE INDEX ix_intents_chain_id ON intents (chain_id);
CREATE INDEX ix_notices_chain_id ON notices (chain_id);
CREATE INDEX ix_excluded_nodes_chain_id ON excluded_nodes (chain_id);
CREATE INDEX ix_moves_chain_id ON moves (chain_id);
CREATE INDEX ix_attempts_identity ON attempts (cluster, job_id, submitted);
CREATE INDEX ix_attempts_ended ON attempts (ended);
CREATE INDEX ix_intents_status ON intents (status);
CREATE INDEX ix_intents_tried_at ON intents (tried_at);
CREATE INDEX ix_notices_delivered ON notices (delivered);
CREATE INDEX ix_excluded_nodes_until ON excluded_nodes (until);
CREATE UNIQUE INDEX uq_intents_open_submission ON intents (chain_id) WHERE status = 'open' AND kind = 'submit';
CREATE UNIQUE INDEX uq_notices_key_open ON notices ("key") WHERE recovered IS NULL;
COMMIT;
