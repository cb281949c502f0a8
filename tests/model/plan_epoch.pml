/*
 * plan_epoch.pml - one decree per epoch: the voters named by the decree of epoch e decide epoch e + 1.
 *
 * tests/model/run.sh checks it and its mutants. By hand:
 *
 *     spin -DT=2 -a plan_epoch.pml && cc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m100000 -w24
 *
 * (T=2: 0.3 M states, seconds; T=3: 13.7 M states, 1.5 GB, minutes; both without error.)
 *
 * Three nodes, T terms (term t belongs to node t % 3), two epochs; a decree's value names the next voters. Quorum: one vote each, the lowest
 * once more when their number is even. Sets of messages only grow, so that loss, duplication, reordering and a crash of any node (what it
 * promised, accepted and committed is durable) are all covered.
 *
 * Beyond single-decree Paxos it has the shortcut of gossip/agree_state.h: a leader whose votes left it free to choose epoch 1 (opened)
 * goes on to epoch 2 in the same term without a vote of the new voters. That needs two rules, each with a mutant: who adopted
 * is not open (BUG_OPEN), and a commit raises the promise to the certificate's term (BUG_RAISE).
 *
 * Who was elected with an accepted value among its votes proposes that one, unless those who accepted nothing rule out that it was
 * chosen; BUG_RULED: one of them is enough for that.
 *
 * Other mutants: BUG_TIE (half is enough), BUG_FORGET (a restart loses the promise), BUG_NOADOPT (what was accepted is ignored).
 */
#define N 3
#define E 2
byte promised[N]; byte commit_[N]; byte certT[3]; /* certT[e]: lowest term of a certificate, 0: none */
byte accT[9]; byte accV[9];         /* [n*3+e] */
bool started[T+1]; byte ep[T+1]; byte votes[T+1]; byte bestT[T+1]; byte bestV[T+1]; byte prop[T+1]; byte acks[T+1];
byte empty_[T+1];                   /* of the votes: who had accepted nothing for the epoch */
bool opened[T+1]; byte prop2[T+1]; byte acks2[T+1]; /* the shortcut to epoch 2 */
byte chosen[3];                     /* chosen[e]; 0 = undecided */
byte n,t,w,tot,vm,i;
inline voters(ee) { /* -> vm */
  if :: ee==0 -> vm=7
     :: else -> if :: chosen[ee]==1 -> vm=7 :: chosen[ee]==2 -> vm=3 :: chosen[ee]==3 -> vm=6 :: else -> vm=0 fi
  fi }
inline quorum(ee,m) { /* -> w,tot : w*2>tot */
  voters(ee); w=0; tot=0; i=0;
  do :: i<N -> if :: vm&(1<<i) -> tot++; if :: (m)&(1<<i) -> w++ :: else fi :: else fi; i++ :: else -> break od;
#ifdef BUG_TIE
  if :: tot%2==0 -> w=w+1 :: else fi;             /* wrong: half is enough for anybody */
#else
  if :: tot%2==0 -> i=0; do :: !(vm&(1<<i)) -> i++ :: else -> break od; tot++; if :: (m)&(1<<i) -> w++ :: else fi :: else fi;
#endif
  i=0 }
inline decide(ee,v) {
  assert(chosen[ee]==0 || chosen[ee]==v);
  chosen[ee]=v;
  if :: certT[ee]==0 || t<certT[ee] -> certT[ee]=t :: else fi }
active proctype sys() {
 do
 /* candidacy */
 :: atomic { select(t:1 .. T); n=t%N;
      if :: (!started[t] && t>promised[n] && commit_[n]<E) -> voters(commit_[n]);
           if :: (vm&(1<<n)) -> started[t]=1; ep[t]=commit_[n]+1; promised[n]=t; votes[t]=(1<<n); bestT[t]=accT[n*3+ep[t]]; bestV[t]=accV[n*3+ep[t]];
                if :: accT[n*3+ep[t]]==0 -> empty_[t]=(1<<n) :: else fi :: else fi
         :: else fi; n=0;t=0;vm=0;w=0;tot=0;i=0 }
 /* vote; who is behind may vote too, it has accepted nothing for that epoch */
 :: atomic { select(t:1 .. T); select(n:0 .. 2);
      if :: (started[t] && t>promised[n] && commit_[n]<=ep[t]-1) -> promised[n]=t; votes[t]=votes[t]|(1<<n); if :: accT[n*3+ep[t]]==0 -> empty_[t]=empty_[t]|(1<<n) :: else fi; if :: accT[n*3+ep[t]]>bestT[t] -> bestT[t]=accT[n*3+ep[t]]; bestV[t]=accV[n*3+ep[t]] :: else fi
         :: else fi; n=0;t=0 }
 /* proposal: what was accepted, unless without those who accepted nothing there is no quorum: then it cannot have been chosen */
 :: atomic { select(t:1 .. T);
      if :: (started[t] && prop[t]==0) -> quorum(ep[t]-1,votes[t]);
           if :: w*2>tot ->
#ifdef BUG_NOADOPT
             opened[t]=1; if :: prop[t]=1 :: prop[t]=2 :: prop[t]=3 fi
#else
#ifdef BUG_RULED
             if :: bestT[t]>0 && empty_[t]==0 -> prop[t]=bestV[t] /* wrong: one who accepted nothing rules it out */
#else
             quorum(ep[t]-1,7&~empty_[t]);
             if :: bestT[t]>0 && w*2>tot -> prop[t]=bestV[t]
#endif
                :: else -> opened[t]=1; if :: prop[t]=1 :: prop[t]=2 :: prop[t]=3 fi fi
#endif
           :: else fi
         :: else fi; n=0;t=0;vm=0;w=0;tot=0;i=0 }
 /* the shortcut: still promised to itself, has committed epoch 1, is among its voters */
 :: atomic { select(t:1 .. T); n=t%N;
      if :: (prop[t]>0 && ep[t]==1 && prop2[t]==0 && commit_[n]==1 && promised[n]==t
#ifndef BUG_OPEN
             && opened[t]
#endif
            ) -> voters(1); if :: (vm&(1<<n)) -> if :: prop2[t]=1 :: prop2[t]=2 :: prop2[t]=3 fi :: else fi
         :: else fi; n=0;t=0;vm=0 }
 /* acceptance */
 :: atomic { select(t:1 .. T); select(n:0 .. 2);
      if :: (prop[t]>0 && promised[n]<=t && commit_[n]==ep[t]-1 && accT[n*3+ep[t]]<t) -> promised[n]=t; accT[n*3+ep[t]]=t; accV[n*3+ep[t]]=prop[t]; acks[t]=acks[t]|(1<<n) :: else fi; n=0;t=0 }
 :: atomic { select(t:1 .. T); select(n:0 .. 2);
      if :: (prop2[t]>0 && promised[n]<=t && commit_[n]==1 && accT[n*3+2]<t) -> promised[n]=t; accT[n*3+2]=t; accV[n*3+2]=prop2[t]; acks2[t]=acks2[t]|(1<<n) :: else fi; n=0;t=0 }
 /* certificate */
 :: atomic { select(t:1 .. T);
      if :: (prop[t]>0) -> quorum(ep[t]-1,acks[t]); if :: w*2>tot -> decide(ep[t],prop[t]) :: else fi
         :: else fi; n=0;t=0;vm=0;w=0;tot=0;i=0 }
 :: atomic { select(t:1 .. T);
      if :: (prop2[t]>0) -> quorum(1,acks2[t]); if :: w*2>tot -> decide(2,prop2[t]) :: else fi
         :: else fi; n=0;t=0;vm=0;w=0;tot=0;i=0 }
 /* commit */
 :: atomic { select(n:0 .. 2);
      if :: (commit_[n]<E && chosen[commit_[n]+1]!=0) -> commit_[n]=commit_[n]+1;
#ifndef BUG_RAISE
           if :: certT[commit_[n]]>promised[n] -> promised[n]=certT[commit_[n]] :: else fi
#endif
         :: else fi; n=0 }
#ifdef BUG_FORGET
 :: atomic { select(n:0 .. 2); promised[n]=0; n=0 }
#endif
 od }
