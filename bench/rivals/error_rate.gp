# The error rate of a filter for a million names at 1 %, by how many it holds, from the files alone,
# grown and rebuilt in "folder": items, measured and predicted rate. Drawn to the file "picture".
set terminal svg size 720,420 background 'white' font 'sans-serif,13'
set output picture
set title 'Error rate of a filter for one million names at 1 %'
set xlabel 'names in the filter, million'
set ylabel 'absent names that are answered maybe, %'
set key bottom right reverse Left samplen 2
set grid
set xrange [0:2.05]
set logscale y
set yrange [0.001:30]
set ytics ('0.001' 0.001, '0.01' 0.01, '0.1' 0.1, '1' 1, '10' 10)
set style data linespoints
plot 1 with lines lt 1 lc rgb '#999999' dt 2 notitle, \
  folder.'/alone' using ($1/1e6):($3*100) with lines lc rgb '#c0392b' title 'left alone, predicted', \
  folder.'/alone' using ($1/1e6):($2*100) with points pt 7 ps 0.6 lc rgb '#c0392b' title 'measured', \
  folder.'/grown' using ($1/1e6):($3*100) with lines lc rgb '#2471a3' title 'grown at one million, predicted', \
  folder.'/grown' using ($1/1e6):($2*100) with points pt 5 ps 0.6 lc rgb '#2471a3' title 'measured', \
  folder.'/rebuilt' using ($1/1e6):($3*100) with lines lc rgb '#1e8449' title 'rebuilt for two million, predicted', \
  folder.'/rebuilt' using ($1/1e6):($2*100) with points pt 9 ps 0.7 lc rgb '#1e8449' title 'measured'
