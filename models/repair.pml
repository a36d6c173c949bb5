/*
 * repair: how nodes become able to vote, as in quorum/internal/nodes/rejoin.go. Part of quorum.pml.
 *
 * A repairer makes one attempt to make a node vote again that lost its data: it raises
 * the epoch on so many voting nodes that every majority includes one of them, reads
 * their marks, and only then makes the node vote. Each of its calls is a single step
 * that may be late or never happen, so that an attempt may stop half-way. A founder
 * makes nodes vote of which none has voted before.
 */
#ifndef REPAIRERS
#define REPAIRERS WIPES
#endif
#ifndef FOUNDERS
#define FOUNDERS 0
#endif
#ifndef LEVEL
#define LEVEL 0 /* nodes that vote in an older epoch are raised to the newest; for three nodes */
#endif

/* The protections of the tokens. */
#ifndef ENOUGH
#define ENOUGH (NODES - NODES / 2) /* so many nodes that every majority includes one */
#endif
#ifndef FIRST
#define FIRST 1 /* epochs are raised before marks are read */
#endif
#ifndef LIFE
#define LIFE 1 /* a node that lost its data since it was seen is left alone */
#endif
#ifndef MARK
#define MARK 1 /* the mark of a node that was emptied since it was raised does not count */
#endif
#ifndef OWN
#define OWN 1 /* no two attempts use the same epoch */
#endif
#ifndef SEEN
#define SEEN 1 /* a node whose epoch changed since it was seen is left alone */
#endif
#ifndef AGED
#define AGED 1 /* founding: an emptied node is not mistaken for a new one */
#endif

/* A hand is a repairer or a founder. The last two bits of an epoch identify the
 * hand that made it. */
#define HANDS (REPAIRERS + FOUNDERS)
#if HANDS
bit  same[NODES * HANDS]; /* the node has kept its data since this hand saw it */
byte hands;               /* equivalent hands start in order */
#endif
#if FOUNDERS
bit  emptied[NODES];
#define STRANGE(n) emptied[n] = 1; UNSAME(n)
#else
#define STRANGE(n) UNSAME(n)
#endif
#if HANDS > 2
#define UNSAME(n)  same[n] = 0; same[NODES + n] = 0; same[2 * NODES + n] = 0
#elif HANDS > 1
#define UNSAME(n)  same[n] = 0; same[NODES + n] = 0
#elif HANDS > 0
#define UNSAME(n)  same[n] = 0
#else
#define UNSAME(n)  skip
#endif

#define NEXT(e)     (OWN -> ((e) / 4 + 1) * 4 + me : (e) + 1)
#define alive(n)    (!LIFE || same[me * NODES + n])
#define raisable(n) (alive(n) && epoch[n] < to && (!SEEN || epoch[n] == saw[n]))
#define voter(n)    (votes[n] && fresh(n))

#define newest_vote MAX(votes[0] * epoch[0], MAX(votes[1] * epoch[1], votes[2] * epoch[2]))
inline level(n) {
  d_step { open && votes[n] && epoch[n] < newest_vote ->
    epoch[n] = newest_vote; printf("node %d is levelled to epoch %d\n", n, epoch[n]) }
}

#if REPAIRERS
inline see(n)  {
#if BACK
  votes[n] = votes[n] && fresh(n); stale[n] = 0;
#endif
  voting[n] = votes[n]; saw[n] = votes[n] * epoch[n]; same[me * NODES + n] = 1
}

/* The new epoch is above those of all nodes that answered; a voting node may not have. */
inline note(n) {
  if
  :: (voting[n] || n == w) && epoch[n] > to -> to = epoch[n]
  :: voting[n] || epoch[n] <= to -> skip
  fi
}

inline raise(n) {
  d_step { EPOCHS && to && voting[n] && raisable(n) && open ->
    printf("repairer %d raises node %d to epoch %d\n", me, n, to);
    epoch[n] = to; votes[n] = 1; voting[n] = 0; saw[n] = 0; raised[n] = !joined }
}

#define up(n)   raised[n]
#define owed(n) voting[n]
#if !EPOCHS
#define readable(n) (voting[n] && !read[n])
#elif !FIRST
#define readable(n) (n != w && votes[n] && !read[n])
#else
#define readable(n) (raised[n] && !read[n] && SUM(up) >= ENOUGH && (!MARK || epoch[n] >= to))
#endif

inline mark(n) {
  d_step { to && !joined && done < ENOUGH && readable(n) && open ->
    printf("repairer %d reads the mark of node %d: %d\n", me, n, count[n]);
    read[n] = 1; done++; high = MAX(high, count[n]) }
}

inline unheed(n) { raised[n] = 0; read[n] = 0 }

inline join() {
  d_step { !joined && done >= ENOUGH && (!EPOCHS || SUM(up) >= ENOUGH) && open ->
    if
    :: alive(w) && epoch[w] < to ->
       printf("repairer %d lets node %d vote, from %d in epoch %d\n", me, w, high, to);
       count[w] = MAX(count[w], high); epoch[w] = to; votes[w] = 1
    :: else
    fi;
    joined = 1; high = 0; done = 0; w = 0; ALL(unheed);
    if :: SUM(owed) == 0 -> to = 0 :: else fi
  }
}

proctype Repairer(byte me) {
  byte w, to, high, done, saw[NODES];
  bit voting[NODES], raised[NODES], read[NODES], joined;
  atomic {
    open && hands == me && SUM(voter) >= ENOUGH && SUM(voter) < NODES -> hands++;
    if
    :: !voter(0) -> w = 0
    :: !voter(1) -> w = 1
    :: !voter(2) -> w = 2
#if NODES > 3
    :: !voter(3) -> w = 3
#endif
#if NODES > 4
    :: !voter(4) -> w = 4
#endif
    fi;
    d_step { ALL(see) }
    ALL(note);
    to = NEXT(to);
    printf("repairer %d wants node %d to vote in epoch %d\n", me, w, to)
  }
  do
  EACH(raise)
  EACH(mark)
  :: join()
  od
}
#endif

#if FOUNDERS
#define seen(n) known[n]
#define told(n) read[n]

inline enlist(n) {
  d_step { !known[n] && !votes[n] && !(AGED && emptied[n]) && open ->
    printf("founder %d sees that node %d is new\n", me, n);
    known[n] = 1; saw[n] = epoch[n]; same[me * NODES + n] = 1 }
}

inline look(n) {
  d_step { SUM(seen) == NODES && !read[n] && open ->
    read[n] = 1; high = MAX(high, count[n]); to = MAX(to, NEXT(epoch[n])) }
}

inline install(n) {
  d_step { SUM(told) == NODES && !done[n] && raisable(n) && open ->
    printf("founder %d lets node %d vote, from %d in epoch %d\n", me, n, high, to);
    done[n] = 1; epoch[n] = to; count[n] = MAX(count[n], high); votes[n] = 1 }
}

proctype Founder(byte me) {
  byte to, high, saw[NODES];
  bit known[NODES], read[NODES], done[NODES];
  atomic { hands == me -> hands++; if EACH(enlist) fi }
  do
  EACH(enlist)
  EACH(look)
  EACH(install)
  od
}
#endif
