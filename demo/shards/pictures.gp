# Draws the two pictures. Told by -e: data (a file: share taken, queries of the five ways, checks a
# second of the five ways), queries and checks (the files to write), shards,
# names, third (the name of the third way).
set terminal svg size 720,420 font 'sans-serif,13' background '#ffffff'
set xlabel 'names asked that are taken, in %'
set xrange [0:100]
set xtics 0, 10
set grid lc rgb '#dddddd'
set key top left
set style line 1 lw 2 pt 7 ps 0.6 lc rgb '#b2182b'
set style line 2 lw 2 pt 7 ps 0.6 lc rgb '#e08214'
set style line 3 lw 2 pt 7 ps 0.6 lc rgb '#2166ac'

set output queries
set title sprintf('Shard queries a check: %d shards, %d names', shards, names)
set ylabel 'queries, counted on the shards'
set yrange [0:shards * 1.35]
plot data using 1:2 with linespoints ls 1 title 'no filter', \
     data using 1:3 with linespoints ls 2 title 'one filter at 1 %', \
     data using 1:4 with linespoints ls 3 title third

set output checks
set title sprintf('Checks a second, two clients: %d shards, %d names', shards, names)
set ylabel 'checks a second'
set logscale y
set yrange [10:*]
set key top right
plot data using 1:7 with linespoints ls 1 title 'no filter', \
     data using 1:8 with linespoints ls 2 title 'one filter at 1 %', \
     data using 1:9 with linespoints ls 3 title third
