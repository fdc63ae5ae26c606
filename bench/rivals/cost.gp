# What a check and an add cost by the number of chunks, from the files floor, check, add and query in
# "folder": the power of two, and microseconds. Drawn to the file "picture".
set terminal svg size 720,560 background 'white' font 'sans-serif,13'
set output picture
set multiplot layout 2,1
set style data linespoints
set grid
set xtics 1
set format x '2^{%g}'
set yrange [0:*]
set lmargin 9
set key bottom right
set title 'One statement a name, prepared, one client'
set ylabel 'microseconds'
plot folder.'/add' pt 5 ps 0.6 lc rgb '#c0392b' title 'add', \
  folder.'/check' pt 7 ps 0.6 lc rgb '#2471a3' title 'check', \
  folder.'/floor' pt 9 ps 0.7 lc rgb '#777777' title 'a select that asks nothing'
set title 'A check inside a query over a million names, beyond the scan'
set xlabel 'chunks of the filter, one kilobyte each'
plot folder.'/query' pt 7 ps 0.6 lc rgb '#2471a3' notitle
unset multiplot
