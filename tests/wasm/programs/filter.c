// A filter on stdio: numbers the lines, adds up the numbers at their ends, and reports on standard error.
//
// Arguments: `--upper` prints upper case. The variable PREFIX stands before each line.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int upper = argc > 1 && strcmp(argv[1], "--upper") == 0;
    const char *prefix = getenv("PREFIX");
    char line[512];
    double sum = 0;
    int lines = 0, bad = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        const char *last = strrchr(line, ' ');
        double value;
        if (last && sscanf(last, "%lf", &value) == 1)
            sum += value;
        else
            bad++;
        if (upper)
            for (char *c = line; *c; c++)
                *c = (char)toupper((unsigned char)*c);
        printf("%s%4d  %s\n", prefix ? prefix : "", ++lines, line);
    }
    printf("sum %.6g\n", sum);
    fprintf(stderr, "%d lines, %d without a number\n", lines, bad);
    if (lines == 0)
        return 3;
    return bad == lines;
}
