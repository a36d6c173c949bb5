package main

import (
	_ "github.com/pawl-go/pawl/etcdlock/etcddoctor" // examiners register their schemes
	_ "github.com/pawl-go/pawl/natslock/natsdoctor"
	_ "github.com/pawl-go/pawl/redislock/redisdoctor"
	_ "github.com/pawl-go/pawl/redlock/redlockdoctor"
	_ "github.com/pawl-go/pawl/sqllock/sqldoctor"
	_ "github.com/pawl-go/pawl/zklock/zkdoctor"
)
